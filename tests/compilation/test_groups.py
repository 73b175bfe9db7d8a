"""Groups of compiled calls: the bits of eager code with native code and without, memory, order, and what is printed."""

import os
import subprocess
import sys
import tracemalloc
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np
import pytest
from compiled_groups import groups_of, programs_of, wrapped
from formula_bits import same_bits, values
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import INSTRUCTIONS, Session

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.autograd import grad
from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.compilation import replay
from autograd_gpu.compilation.passes import fuse

pytest.importorskip("llvmlite", reason="groups need the extra [native]")
pytestmark = pytest.mark.cpu


# ---- groups --------------------------------------------------------------------------------------------

UNARY = ["neg", "abs", "sin", "tanh", "exp", "sqrt", "square", "relu", "silu", "reciprocal"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
PLACE = st.integers(0, 8)
CASTS = {"half": ag.float16, "bfloat16": ag.bfloat16, "float": ag.float32}
STEP = st.tuples(st.sampled_from([*UNARY, *BINARY, *CASTS]), PLACE, PLACE, st.sampled_from([None, None, -0.0, 2, 0.5]))
LAYOUTS = {
    "dense": lambda a: a, "reversed": lambda a: a[::-1], "strided": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "transposed": lambda a: np.ascontiguousarray(a.T).T, "expanded": lambda a: np.broadcast_to(a[..., :1], a.shape),
}  # fmt: skip


def steps_on(steps, *tensors):
    """What a list of steps computes: each reads earlier results or tensors."""
    made = [*tensors]
    for name, i, j, number_ in steps:
        a, b = made[i % len(made)], made[j % len(made)]
        if name in CASTS:
            made.append(a.to(CASTS[name]))
        else:
            second = () if name in UNARY else (b if number_ is None else number_,)
            made.append(getattr(ag, name)(a, *second))
    return tuple(made[len(tensors) :])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(STEP, min_size=2, max_size=9), st.sampled_from([(), (7,), (0,), (3, 5), (40, 33), (2, 3, 400)]),
    st.lists(st.sampled_from([*LAYOUTS]), min_size=2, max_size=2),
    st.sampled_from([np.float32, np.float64, np.float16, ag.bfloat16.type]),
    st.sampled_from(["same", "scalar", "row", "column"]), st.booleans(),
)  # fmt: skip
def test_groups_have_the_bits_of_eager_code(steps, shape, layouts, dtype, other, whole):
    """Any layout, broadcast and special value; results that are all returned, or the last one."""
    second = {"same": shape, "scalar": (), "row": shape[-1:], "column": shape[:1] + (1,) * (len(shape) - 1)}[other]
    tensors = []
    for seed, (size, layout) in enumerate(zip((shape, second), layouts, strict=True)):
        a = values(int(np.prod(size)), dtype, seed).reshape(size)
        tensors.append(wrapped(LAYOUTS[layout](a) if a.ndim and a.size else a))

    def f(*xs):
        made = steps_on(steps, *xs)
        return made if whole else made[-1:]

    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(switch, "LOADS", 1)
        patch.setattr(switch, "COMPILES", 1)
        expected = f(*tensors)
        compiled = ag.compile(f, fullgraph=True)
        for _ in range(5):  # the third call compiles, later ones run the ufunc itself
            for got, want in zip(compiled(*tensors), expected, strict=True):
                same_bits(got._array, want._array)
                assert got._array.strides == want._array.strides


def test_half_types_inside_of_a_group_of_float32(at_once):
    """Casts there and back round, and so does each op between them; float64 is another group."""

    def f(x):
        y = x.half() * x.half().bfloat16()
        z = (x.bfloat16() + x.half().tanh().bfloat16()).float()
        return x.half().float() * 3, y, z, x.double().half().double() + 1

    x, compiled = wrapped(values(500)), ag.compile(f, fullgraph=True)
    with np.errstate(all="ignore"):
        expected = f(x)
        for _ in range(5):
            for got, want in zip(compiled(x), expected, strict=True):
                same_bits(got._array, want._array)
    dtypes = [{v.dtype for v in (*group.args, *group.outs)} for group in groups_of(compiled)]
    assert {ag.float32} in dtypes or {ag.float32, ag.float16} in dtypes
    assert not any(ag.float64 in several and len(several) > 1 for several in dtypes)


def network(*sizes):
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def residual_step(points=64, width=16):
    """A training step with second derivatives."""
    ag.manual_seed(0)
    model = network(2, width, width, 1)
    update = optim.Adam(model.parameters(), lr=1e-2)

    def step(x):
        update.zero_grad()
        (first,) = grad(model(x).sum(), x, create_graph=True)
        second = sum(grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2))
        loss = ((second - (3 * x[:, 0]).sin() * x[:, 1].exp()) ** 2).mean()
        loss.backward()
        update.step()
        return loss.detach()

    return step


def classifier_step():
    """A step of a classifier with layer norm, SiLU and a penalty of the weights."""
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4))
    update = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        update.zero_grad()
        penalty = sum((p * p).sum() for p in model.parameters())
        loss = nn.functional.cross_entropy(model(x), x.argmax(1) % 4) + 1e-3 * penalty
        loss.backward()
        update.step()
        return loss.detach()

    return step


@pytest.mark.parametrize(("make", "size"), [(residual_step, (64, 2)), (classifier_step, (80, 8))])
def test_twenty_steps_have_the_losses_of_eager_code(make, size, at_once):
    data = [values(size[0] * size[1], seed=k).clip(-3, 3).reshape(size) for k in range(20)]
    losses = []
    for wrap in (lambda step: step, ag.compile, ag.compile):
        step = make()
        with switch.numpy_code_alone() if len(losses) == 2 else pytest.MonkeyPatch.context():
            call = wrap(step)
            losses.append([call(ag.tensor(np.nan_to_num(x), requires_grad=True)).item() for x in data])
    assert losses[0] == losses[1] == losses[2]
    assert np.isfinite(losses[0]).all()


def test_random_steps_have_the_bits_of_eager_code(at_once):
    random = np.random.default_rng(1)
    for _ in range(8):
        step = [(INSTRUCTIONS[i], *map(int, random.integers(0, 12, 3)))
                for i in random.integers(0, len(INSTRUCTIONS), 8)]
        assert Session(step, True, False).run([""] * 8) == Session(step, True, True).run([""] * 8)


# ---- memory and order ----------------------------------------------------------------------------------


def test_a_grad_that_was_set_is_no_memory_for_a_later_result():
    p = ag.ones(5).requires_grad_()

    @ag.compile(fullgraph=True)
    def f(x):
        p.grad = None
        (p * x.exp()).sum().backward()
        return p.grad.sin()

    for k in range(4):
        out = f(ag.full((5,), float(k)))
        assert p.grad.tolist() == (ag.full((5,), float(k))).exp().tolist()
        assert out.tolist() == p.grad.sin().tolist()


def test_what_reads_memory_that_is_written_to_keeps_its_side_of_the_write(at_once):
    """Two writes, with equal arithmetic before, between and behind them, on that memory, a view of it and its rows."""

    def f(x, w):
        y = x * 2
        made = []
        for k in range(3):
            made += [(y + 1) * 3, (x + w) * w, (y[0] + w).tanh(), (w + 1) * 3]
            if k < 2:
                y.add_(1)
                w.mul_(2)
        return made

    compiled = ag.compile(f, fullgraph=True)
    for k in range(5):
        x, rows = ag.full((4, 3), float(k)), [ag.ones(3) + k for _ in range(2)]
        assert [t.tolist() for t in compiled(x, rows[0])] == [t.tolist() for t in f(x, rows[1])]
        assert rows[0].tolist() == rows[1].tolist()
    written = {v.root for program in programs_of(compiled) for node in program.nodes for v in node.writes}
    assert written & {v.root for group in groups_of(compiled) for v in group.reads}
    assert written.isdisjoint(v.root for group in groups_of(compiled) for v in group.outs)


def test_equal_results_are_two_arrays(at_once):
    compiled = ag.compile(lambda x: (x * 2 + 1, x * 2 + 1))
    for _ in range(5):
        a, b = compiled(ag.ones(2))
        a.zero_()
        assert b.tolist() == [3.0, 3.0]


def peak_of(step, x):
    for _ in range(6):
        step(x)
    tracemalloc.start()
    step(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_groups_take_no_more_memory_than_the_order_of_the_program(at_once, monkeypatch):
    x = ag.randn(2048, 2, requires_grad=True)
    grouped = ag.compile(residual_step(width=32))
    most = peak_of(grouped, x)
    assert groups_of(grouped)
    monkeypatch.setattr(replay, "fused", lambda nodes, returns: [*nodes])
    assert most <= 1.1 * peak_of(ag.compile(residual_step(width=32)), x)


def test_a_product_between_two_sums_parts_them():
    """A group never waits for what needs one of its results."""
    w = ag.randn(4, 4)

    def f(x):
        y = x * 2 + 1
        return (y @ w) * 2 + y, y * 3 - 1

    compiled = ag.compile(f, fullgraph=True)
    x = ag.randn(4, 4)
    for _ in range(4):
        assert [t.tolist() for t in compiled(x)] == [t.tolist() for t in f(x)]
    assert [len(g.parts) for g in groups_of(compiled)] == [4, 2]


def test_without_native_code_only_large_arrays_are_grouped(monkeypatch):
    monkeypatch.setattr(fuse, "NUMPY_CODE", 1000)
    with switch.numpy_code_alone():
        for size, count in ((999, 0), (1000, 1)):
            compiled = ag.compile(lambda x: x * 2 + 1)
            for _ in range(3):
                assert compiled(ag.ones(size)).tolist() == [3.0] * size
            assert len(groups_of(compiled)) == count


def test_large_arrays_go_to_all_cores(at_once, monkeypatch):
    monkeypatch.setattr(rows._Cores, "count", 2)
    compiled = ag.compile(lambda x, y: ((x * 2 + y).tanh(), x - y * y))
    x, y = ag.randn(1 << 10, 1 << 10), ag.randn(1 << 10, 1 << 10)
    for _ in range(4):
        a, b = compiled(x, y)
    same_bits(a._array, (x * 2 + y).tanh()._array)
    same_bits(b._array, (x - y * y)._array)


def test_no_groups_need_each_other(monkeypatch):
    """A part that joins a group may need a later one, and what runs behind the group stands before it or behind it."""
    in_order, orders = fuse._in_order, []

    def checked(units):
        orders.append(TopologicalSorter({unit.number: unit.needs for unit in units}))
        orders[-1].prepare()  # CycleError, where _in_order would not end
        return in_order(units)

    monkeypatch.setattr(fuse, "_in_order", checked)
    ag.manual_seed(0)
    layers = [layer for k, h in pairwise([3, 8, 8, 8, 8]) for layer in (nn.Linear(k, h), nn.Tanh())]
    net = nn.Sequential(*layers, nn.Linear(8, 3)).double()
    parameters = list(net.parameters())

    def f(x):
        sums, values = func.vmap(func.laplacian(lambda row: (net(row), net(row)), has_aux=True, method="push"))(x)
        grads = grad((sums**2).mean() + (values**2).mean(), parameters, create_graph=True)
        return grad(sum((g**2).sum() for g in grads), parameters)

    x = ag.randn(96, 3, dtype=ag.float64)
    compiled = ag.compile(f)
    for _ in range(3):
        for mine, other in zip(compiled(x), f(x), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert orders


def test_a_result_overwrites_nothing_of_which_a_view_is_read(at_once):
    """Another thread would read it, or read it later."""

    def f(x):
        y, z = x.cos(), x.exp() * 2
        return (y + y[0]) * 2, (z + x) * 3

    compiled, x = ag.compile(f, fullgraph=True), ag.randn(6, 4)
    for _ in range(4):
        for got, want in zip(compiled(x), f(x), strict=True):
            same_bits(got._array, want._array)
    (program,) = programs_of(compiled)
    assert any(v.name == "basic_index" for group in groups_of(compiled) for v in group.args)
    assert not any(operand.name == "cos" for operand in program.plan.over.values())


# ---- what is seen of groups ----------------------------------------------------------------------------


def test_the_text_shows_formulas_and_lines_of_code():
    def f(x, y):
        z = x * y + 1
        return nn.functional.silu(z) * z

    compiled = ag.compile(f)
    x = ag.ones(300, device="cpu")
    for _ in range(3):
        compiled(x, x)
    line = f.__code__.co_firstlineno
    assert compiled.print_readable(print_output=False) == f"""def f(t_x):
    x = t_x._array
    if observers: count()
    # mul = x * x  [{__file__}:{line + 1}]
    # add = mul + 1  [{__file__}:{line + 1}]
    # silu = add * sigmoid(add)  [{__file__}:{line + 2}]
    # mul_1 = silu * add  [{__file__}:{line + 2}]
    mul_1 = group0(x)
    return (mul_1, )
"""
    assert compiled.explain().programs[0].ops == {"mul": 2, "add": 1, "silu": 1}
    with ag.profiler.count() as counted:
        compiled(x, x)
    assert counted.launches == {"native": 1}


SECOND = """
import autograd_gpu as ag
from autograd_gpu.backend.formulas.native import disk_cache
compiled, f = [], ag.compile(lambda x: (x * 2 + 1).tanh() - x)
disk_cache._compiled, compile = lambda ir: compiled.append(ir) or compile(ir), disk_cache._compiled
for _ in range({calls}):
    f(ag.ones(10))
print(len(compiled), [type(g).__name__ for p in f._kinds.values() for _, r in p.programs
                      for g in r.program._scope.values() if "group" in str(g) or type(g).__name__ == "ufunc"])
"""


def test_a_second_process_compiles_nothing(tmp_path):
    seen = []
    for calls in (70, 4):
        command = [sys.executable, "-c", SECOND.replace("{calls}", str(calls))]
        result = subprocess.run(command, capture_output=True, text=True, check=True,
                                env={**os.environ, "AUTOGRAD_GPU_CACHE_DIR": str(tmp_path)})  # fmt: skip
        seen.append(result.stdout.split(maxsplit=1))
    assert [int(count) for count, _ in seen] == [1, 0]
    assert all("ufunc" in kinds for _, kinds in seen)
