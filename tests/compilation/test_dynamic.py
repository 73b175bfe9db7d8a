"""dynamic=True: calls with other sizes share a program, and do what eager calls do, bit for bit."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given as drawn_by
from hypothesis import settings
from hypothesis import strategies as st
from sized_calls import flat, given, outcome, run

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

pytestmark = pytest.mark.cpu
F = nn.functional
PROGRAMS = {}


def program(make):
    """Registers make(), which gives a function of x of shape (n, 4), and a list of what else it changes."""
    PROGRAMS[make.__name__] = make
    return make


def weight(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype("f4")
    return ag.tensor(values, requires_grad=True)


def step_of(model, optimizer, loss_of):
    def step(x):
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, list(model.parameters())


def network():
    ag.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


@program
def sgd():
    model = network()
    return step_of(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lambda m, x: (m(x.detach()) ** 2).mean())


@program
def adam():
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    return step_of(model, optimizer, lambda m, x: m(x.detach()).square().sum() / x.shape[0])


@program
def forward_alone():
    w = weight(4, 3)
    return lambda x: (x @ w).tanh(), [w]


@program
def moments():
    return lambda x: (x.mean(), x.var(), x.std(0), x.var(0, correction=0), x.mean(1), x.sum(0)), []


@program
def reshapes():
    def f(x):
        n = x.shape[0]
        return x.reshape(n, 2, 2), x.view(-1), x.reshape(-1, 2), x.view(n * 2, 2), x.T.reshape(4 * n), x.flatten()

    return f, []


@program
def joins():
    def f(x):
        y = ag.cat([x, x * 2, ag.zeros(2, 4)])
        return y, ag.stack([x, x.sin()], 1), ag.cat([x[1:], x[:1]]), x.repeat(2, 1)

    return f, []


@program
def positions():
    def f(x):
        n = x.size(0)
        return x * ag.arange(n)[:, None] + ag.ones(n, 1), ag.full((n,), 2.5), ag.zeros(n, 4) + x

    return f, []


@program
def divisors():
    def f(x):
        n, d = x.shape
        return x / n, x * (1.0 / n), x.sum() / (n * d), x * ((n - 1) / n), x - n, x.numel() * x, x / n**0.5

    return f, []


@program
def slices():
    def f(x):
        n = x.shape[0]
        return x[: n - 1], x[n - 1], x[1:], x[-1], x.narrow(0, 1, n - 1), x[:, 1]

    return f, []


@program
def halves():
    return lambda x: x[: x.shape[0] // 2].sum(), []


@program
def parity():
    return lambda x: x * (2.0 if x.shape[0] % 2 else 3.0), []


@program
def layer_norm():
    ag.manual_seed(2)
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.5))
    return model, list(model.parameters())


@program
def batch_norm():
    ag.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    return model, [*model.parameters(), *model.buffers()]


@program
def classes():
    model = network()
    target = ag.arange(3)

    def f(x):
        labels = x.detach().argmax(1).clamp(0, 2)
        total = F.nll_loss(F.log_softmax(model(x), -1), labels, reduction="sum")
        return F.cross_entropy(model(x), labels), total, target

    return f, list(model.parameters())


@program
def noise():
    def f(x):
        return x + ag.randn(x.shape[0], 4), F.dropout(x, 0.3)

    return f, []


@program
def per_example():
    w = weight(4)
    return lambda x: func.vmap(func.grad(lambda row: ((row * w).sin() ** 2).sum()))(x), [w]


@program
def hessian():
    return lambda x: func.hessian(lambda z: (z**3).sum())(x.mean(0)), []


@program
def jacobian_of_rows():
    return lambda x: func.vmap(func.jacrev(lambda row: row.tanh()))(x), []


@program
def writes():
    def f(x):
        y = x * 2
        y[0].mul_(3.0)
        y.add_(x)
        z = ag.zeros(x.shape[0], 4)
        z[:, 1] = y.detach()[:, 0]
        return y, z

    return f, []


@program
def pairwise():
    return lambda x: (x @ x.T, (x[:, None] - x[None]).abs().sum(-1), x.softmax(0)), []


@program
def attention():
    w = weight(4, 12)

    def f(x):
        q, k, v = (x @ w).chunk(3, -1)
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)

    return f, [w]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_eager_code_does_for_all_sizes(name):
    compiled = run(PROGRAMS[name])
    compiled = getattr(compiled, "_ag_compiled", compiled)
    recorded = compiled.counts.traced
    assert any("s0" in info.arguments for info in compiled.explain().programs), compiled.explain().by_size
    ag.manual_seed(0)
    for n in (33, 47, 13):  # sizes that no call had
        compiled(given(n, 4))
    assert compiled.counts.traced == recorded


def test_the_third_size_is_the_last_one_that_is_recorded():
    compiled = run(adam, (32, 32, 17, 64, 5, 6, 7, 100, 3000))
    assert repr(compiled.counts) == "Counts(traced=4, compiled=5, eager=0)"
    assert compiled.recompiles == []


def test_a_size_that_comes_again_has_a_program_of_its_own():
    compiled = run(adam, (32, 32, 17, 64, *[9] * 8))
    own, shared = compiled.explain().programs
    assert "[9, 4]" in own.arguments
    assert "[s0, 4]" in shared.arguments
    assert compiled.counts.traced == 4
    assert "misfit" not in compiled.print_readable(print_output=False).partition("def step")[2].partition("def ")[0]


def test_sizes_that_have_programs_are_bounded(monkeypatch):
    monkeypatch.setattr("autograd_gpu.compilation.compiled.MOST_KINDS", 3)
    compiled = run(forward_alone, (32, 32, 17, 64, *(n for n in range(5, 12) for _ in range(5))))
    assert len(compiled._kinds) <= 3
    assert len(compiled.explain().programs) == 4
    assert compiled.counts.traced == 4


# ---- what the user's code does with sizes ------------------------------------------------------------


def branch(x):
    return x * 2 if x.shape[0] > 10 else x.sin()


def loop(x):
    y = x
    for _ in range(x.shape[0] % 3):
        y = y * 2
    return y


def length(x):
    return x * (2.0 if len(x) > 40 else 3.0)


def table(x):
    return x * [1.0, 2.0, 3.0, 4.0][min(x.shape[0], 3)]


def least(x):
    return x * min(x.shape[0], 40)


def quotient(x):
    return x * (x.shape[0] // 100) + x[x.shape[0] // 100 :]


def remainder(x):
    return x * (x.shape[0] % 1000)


def kept(x):
    return x * {17: 1.0, 64: 1.0}.get(x.shape[0], 5.0)


def named(x):
    return x * (1.0 if "7" in f"{x.shape}" else 2.0)


def listed(x):
    return x * ag.tensor([2.0] * x.shape[0])[:, None]


def counted(x):
    return x * (7.0 if x.numel() > 200 else 8.0), x * (1.0 if x.nbytes % 48 else 2.0), x * x.stride(0)


def rounded(x):
    return x * round(x.shape[0] / 40), x * int(x.shape[0] / 50), x * (x.size(0) ** 0.5)


def unpacked(x):
    return sum(row * i for i, row in enumerate(x[:3])), x.unbind()[0]


def compared(x):
    return x if x.shape == (64, 4) else x + 1, x * (x.shape[0] in (6, 100))


def squared(x):
    return ag.zeros(x.shape[0] ** 2) + x.shape[0] ** 3, (x @ x.T).reshape(x.shape[0] ** 2)


def shaped(x):
    return x * 2, tuple(x.shape), x.shape[0]


def of_results(x):
    y = ag.cat([x, x])[1:]
    return y * (1.0 if y.shape[0] > 50 else 2.0), y.sum() / y.shape[0], y.reshape(-1)[: y.shape[0]]


def looked(x):
    return x * (2.0 if (ag.arange(x.shape[0]) > 50).any() else 3.0)


def checked(x):
    return F.multi_margin_loss(x @ x.detach().T, ag.arange(x.shape[0]))


READERS = (looked, checked, branch, loop, length, table, least, quotient, remainder, kept, named, listed,
           counted, rounded, unpacked, compared, squared, shaped, of_results)  # fmt: skip
MANY = (32, 32, 17, 64, 5, 6, 100, 2, 9, 128, 230, 7, 11, 40, 41, 64, 3, 1001, 12, 2000)


@pytest.mark.parametrize("fn", READERS, ids=lambda fn: fn.__name__)
def test_what_depends_on_a_size_is_never_replayed_for_another_one(fn):
    run(lambda: (fn, []), MANY)


def test_both_sides_of_a_branch_are_shared():
    compiled = run(lambda: (branch, []), (32, 17, 64, 5, 7, 3, 128, 8, 9, 256, 2))
    assert [info.ops for info in compiled.explain().programs] == [{"sin": 1, "cos": 1, "mul": 1}, {"mul": 2}]
    assert compiled.counts.compiled == 5


def test_the_reason_is_said_where_sizes_are_not_shared():
    compiled = run(lambda: (listed, []), (32, 17, 64, 5))
    assert compiled.counts.compiled == 0
    (reason,) = compiled.explain().by_size
    assert "the size s0 is used as a plain number" in reason
    assert "test_dynamic.py:" in reason
    assert compiled.recompiles == [reason]
    assert f"recorded size by size: {reason}" in str(compiled.explain())


# ---- several sizes -----------------------------------------------------------------------------------


def test_sizes_that_were_equal_and_differ_later():
    def f(x, y):
        return (x @ y.T).sum() / (x.shape[0] * y.shape[0]), x[0] - y[0]

    compiled = ag.compile(f, dynamic=True)
    for n, m in ((8, 8), (9, 9), (10, 10), (11, 11), (11, 12), (13, 12), (14, 6), (15, 3), (20, 30), (3, 40), (4, 4)):
        x, y = given(n, 4), given(m, 4)
        assert flat(compiled(x, y)) == flat(f(x, y)), (n, m)
    assert "x: f32[s0, 4], x_1: f32[s1, 4]" in str(compiled.explain())


def test_sizes_that_vary_together_are_not_taken_for_each_other():
    def f(x, y):
        return x / (x.shape[0] + 1), y / y.shape[0], x.repeat(2, 1)[: y.shape[0]], y[: y.shape[0] - x.shape[0]]

    compiled = ag.compile(f, dynamic=True)
    for n, m in ((8, 9), (10, 11), (12, 13), (14, 15), (20, 21), (20, 22), (9, 12), (30, 31), (5, 9), (6, 7), (7, 11)):
        x, y = given(n, 4), given(m, 4)
        assert flat(compiled(x, y)) == flat(f(x, y)), (n, m)


def test_a_size_that_equals_another_one_by_chance_is_one_of_its_own():
    w = weight(4, 8)

    def f(x):
        h = x @ w
        return h * 2 if h.shape[0] == h.shape[1] else h

    compiled = run(lambda: (f, [w]), (32, 17, 64, 5, 8, 8, 4, 9))
    assert compiled.counts.traced == 6  # 32, 17, 64, twice 8, and 4


@settings(max_examples=25, deadline=None)
@drawn_by(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=8, max_size=14), st.integers(0, 4))
def test_any_sequence_of_sizes(sizes, which):
    def f(x, y):
        n, m = x.shape[0], y.shape[0]
        z = (x @ w).tanh() / (n + 1)
        if which == 0:
            return z.sum(0) * m, ag.cat([x, y]).mean() if n + m else x
        if which == 1:
            return (z * 2.0 if n > m else z.exp()), y[: n - 1]
        if which == 2:
            return z.reshape(n * 3), x[: m + 1].sum(), (y + 1 if m == 3 else y * n)
        if which == 3:
            return ag.ones(n, m) * x.mean(1)[:, None] * y.mean(1), ag.arange(n + m)
        return x.softmax(0).sum(0) + y.var(0, correction=0) if m else x, z[n // 2 :]

    w = weight(4, 3)
    compiled = ag.compile(f, dynamic=True)
    for n, m in sizes:
        a, b = [(given(n, 4), given(m + 20, 4)[:m].clone()) for _ in range(2)]
        expected = outcome(lambda pair: f(*pair), a)
        assert outcome(lambda pair: compiled(*pair), b) == expected, (n, m)


# ---- what else a call depends on ---------------------------------------------------------------------


def test_guards_of_a_shared_program():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = ag.compile(lambda x: net(x).sum(), dynamic=True)

    def check(sizes):
        for n in sizes:
            x = given(n, 4)
            ag.manual_seed(n)
            expected = net(x).sum().item()
            ag.manual_seed(n)
            assert compiled(x).item() == expected, n

    check((5, 6, 7, 8))
    net.eval()
    check((9, 11, 12, 13, 14))
    assert compiled.counts.traced == 6
    assert "training has changed" in compiled.recompiles[0]


def test_modes_kinds_of_tensors_and_layouts_are_apart():
    compiled = ag.compile(lambda x: (x * 2, x.shape[0] * x.mean(0)), dynamic=True)

    def check(make):
        for n in (5, 6, 7, 8):
            assert flat(compiled(make(n))) == flat((make(n) * 2, n * make(n).mean(0)))

    check(lambda n: given(n, 4))
    check(lambda n: given(n, 4, grad=False))
    check(lambda n: given(n, 4).detach().double())
    check(lambda n: given(4, n, grad=False).T)
    check(lambda n: given(n, 8, grad=False)[:, ::2])
    check(lambda n: given(n, 4)[None][0])
    with ag.no_grad():
        check(lambda n: given(n, 4))


def test_saved_tensor_hooks_have_a_program_for_each_size():
    def f(x):
        with ag.hooks.quantize("float8_e4m3fn", min_bytes=100):
            return (x @ w).tanh().sum()

    w = weight(4, 3)
    compiled = run(lambda: (f, [w]), (40, 40, 17, 64, 5, 6, 6, 9))
    assert any("saved-tensor hooks may decide by size" in reason for reason in compiled.explain().by_size)


def test_a_number_from_sizes_may_be_any_formula():
    def f(x):
        n = x.shape[0]
        return x * (2.0 / (n * 3 - 1) + n % 5), x[: n // 3], x / (n * n)

    compiled = run(lambda: (f, []), MANY)
    assert compiled.counts.traced == 4 + 4  # a third of 5, 2 and 3 is less than 2, and that of 12 the width


def test_a_result_that_does_not_follow_takes_back_what_was_done():
    """A slice that ends at the end of a shorter tensor: nothing tells of it but the result."""

    def make():
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        return step_of(model, optimizer, lambda m, x: F.dropout(m(x.detach()), 0.5)[:9].square().mean())

    compiled = run(make, (20, 20, 17, 64, 30, 5, 31, 5, 6, 40))
    assert compiled.counts.traced == 4 + 3
    assert "basic_index has shape [6, 3]" in compiled.recompiles[-1]


def test_an_error_is_that_of_eager_code():
    w = weight(12, 3)
    run(lambda: (lambda x: (x.reshape(-1, 12) @ w).sum(), [w]), (9, 9, 18, 30, 60, 5, 6, 10, 90))
    run(lambda: (lambda x: F.cross_entropy(x.T, ag.arange(4)), []), (9, 17, 30, 60, 3, 5))


def test_arrays_of_recorded_calls_are_not_kept():
    w = weight(4, 4096)
    seen = []

    def f(x):
        h = (x @ w).exp()
        seen.append(weakref.ref(h.detach().array)) if not ag.compiler.is_compiling() else None
        return (h * 2).sum()

    compiled = ag.compile(f, dynamic=True)
    sizes = (30, 40, 50, 60, 70)
    gc.collect()
    for n in sizes:
        compiled(given(n, 4)).backward()
    gc.collect()
    large = [x for x in gc.get_objects() if isinstance(x, ag.Tensor) and x.nbytes >= 30 * 4096 * 4]
    assert large == []
    assert compiled.counts.traced == 3


def test_none_is_true_and_false_makes_a_program_for_each_size():
    counts = []
    for dynamic in (True, None, False):
        compiled = ag.compile(lambda x: x * 2, dynamic=dynamic)
        for n in (3, 4, 5, 6, 7):
            compiled(ag.ones(n))
        counts.append(compiled.counts.traced)
    assert counts == [3, 3, 5]


def test_code_of_a_shared_program():
    compiled = ag.compile(lambda x: x.sum() / x.shape[0] + (x[: x.shape[0] // 2]).mean(), dynamic=True)
    for n in (8, 9, 20):
        compiled(ag.ones(n))
    text = compiled.print_readable(print_output=False)
    assert "s0 = x.shape[0]" in text
    assert "(s0 // 2)" in text
    assert "f32[s0]" in str(compiled.explain())
