"""ag.compile(mode="reduce-overhead"): programs as CUDA graphs do what eager calls do, bit for bit."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim

pytestmark = pytest.mark.cuda
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
}


def bits(tensors):
    return [None if t is None else t.detach().cpu().numpy().tobytes() for t in tensors]


def graphed(fn, **options):
    return ag.compile(fn, mode="reduce-overhead", fullgraph=True, **options)


def batches(device, rows, seed=1):
    random = np.random.default_rng(seed)
    for n in rows:
        yield (ag.tensor(random.uniform(-1, 1, (n, 3)).astype("f4"), device=device),
               ag.tensor(random.integers(0, 2, (n,)), device=device))


def training(name, device, wrap):
    """Steps with a schedule, a second batch size, and a state that is loaded: bits of all state after each step."""
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)).to(device)
    o = OPTIMIZERS[name](m.parameters())
    schedule = optim.lr_scheduler.ExponentialLR(o, 0.8)

    def step(x, y):
        o.zero_grad()
        loss = nn.functional.cross_entropy(m(x) * 2, y)  # else the sums for the bias have another order
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        with ag.no_grad():
            m[3].bias.mul_(0.5)
        return loss.detach(), m[0].weight.grad

    f, seen, saved = wrap(step), [], None
    for i, (x, y) in enumerate(batches(device, (4,) * 7 + (2,) * 5 + (4,) * 6)):
        if i == 7:
            saved = {k: v.clone() for k, v in m.state_dict().items()}, o.state_dict()
        if i == 14:
            m.load_state_dict(saved[0])
            o.load_state_dict(saved[1])
        loss, grad = f(x, y)
        assert grad is m[0].weight.grad
        seen.append(bits([loss, *m.parameters(), *(p.grad for p in m.parameters())])
                    + [p._version for p in m.parameters()])
        schedule.step()
    return seen, f


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name, device):
    expected, _ = training(name, device, lambda fn: fn)
    seen, f = training(name, device, graphed)
    for i, (a, b) in enumerate(zip(seen, expected, strict=True)):
        assert a == b, i
    assert f.counts.eager == 0
    assert [p.graph for p in f.explain().programs][-2:] == ["1 CUDA graph"] * 2


def outside(device, wrap, retain=False):
    """Backwards outside of the call: at once, after a further call, twice, of a second order, and without one."""
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
    f, seen = wrap(m), []
    for i, (x, _) in enumerate(batches(device, (4,) * 12)):
        x.requires_grad_()
        y = f(x)
        if i % 4 == 2:
            z = f(x * 2)  # before the backward of the first one, whose saved values it must not overwrite
            (z.sum() + (y ** 2).sum()).backward()
        elif i % 4 == 3:
            (first,) = ag.autograd.grad((y ** 2).sum(), x, create_graph=True)
            (first ** 2).sum().backward()
        else:
            y.sum().backward(retain_graph=True)
            y.sum().backward()
        seen.append(bits([y, x.grad, *(p.grad for p in m.parameters())]))
        m.zero_grad()
    return seen, f


def test_backward_outside(device):
    expected, _ = outside(device, lambda fn: fn)
    seen, f = outside(device, graphed)
    for i, (a, b) in enumerate(zip(seen, expected, strict=True)):
        if i % 4 != 3:  # the order of sums of a second derivative outside is another one, as docs/compile.md says
            assert a == b, i
    assert f.counts.eager == 0
    assert f.explain().programs[0].graph == "1 CUDA graph"
    assert f.counts.compiled == 13


def test_results_and_arguments(device):
    """Written arguments, results that share memory or have other strides, `.grad`s of arguments, no tensors."""
    w = ag.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)

    def fn(x, y):
        x.mul_(2)
        ((y * w) ** 2).sum().backward()
        z = x @ w
        return z, z.t(), z[0], w, w[0], 7

    def run(f):
        seen = []
        for i in range(6):
            x = ag.full((2, 2), i + 0.5, device=device)
            y = ag.full((2, 2), i + 0.25, device=device, requires_grad=True)
            view = x[1]
            z, t, first, same, row, seven = f(x, y)
            assert (same is w, seven, t.stride(), z.stride()) == (True, 7, (1, 2), (2, 1))
            t.add_(1)  # into the memory of z
            seen.append([*bits([x, view, y.grad, z, t, first, row]), x._version, z._version])
        return seen

    f = graphed(fn)
    assert run(f) == run(fn)
    assert f.explain().programs[0].graph == "1 CUDA graph"


def test_accumulated_grads(device):
    """Each set of .grads that a program adds to has a graph; other sets are captured anew."""
    p = nn.Parameter(ag.ones(3, device=device))

    def fn(x):
        (x * p).sum().backward()

    def run(f):
        p.grad, seen = None, []
        for i in range(20):
            if i % 3 == 0:
                p.grad = None if i % 2 else ag.zeros(3, device=device)
            f(ag.full((3,), float(i), device=device))
            seen.append(bits([p.grad]))
        return seen

    f = graphed(fn)
    assert run(f) == run(fn)
    assert f.counts.compiled >= 14


@pytest.mark.parametrize("inside", [False, True])
def test_random_numbers(inside, device):
    """`inside`: the result has a history, which a backward has freed."""
    w = ag.ones(3, device=device, requires_grad=True)

    def fn(x):
        if not inside:
            return x * ag.rand(3, device=device) + ag.randn(3, device=device)
        w.grad = None
        loss = (x * w * ag.rand(3, device=device)).prod()  # of sums the order may be another one
        loss.backward()
        return loss + w.grad.prod()

    def run(f):
        ag.manual_seed(5)
        seen = [bits([f(ag.ones(3, device=device))]) for _ in range(6)]
        return [*seen, bits([ag.rand(2, device=device)])]

    f = graphed(fn)
    assert run(f) == run(fn)
    assert f.explain().programs[0].graph == "1 CUDA graph"


def test_inside_and_around_graphed_steps(device):
    p = nn.Parameter(ag.ones(3, device=device))
    o = optim.SGD([p], lr=0.1)

    def fn(x):
        o.zero_grad()
        loss = (x * p).exp().sum()
        loss.backward()
        o.step()
        return loss.detach()

    def run(f):
        with ag.no_grad():
            p.fill_(1.0)
        return [[t.tolist() for t in (f(ag.full((3,), 0.1 * i, device=device)), p.detach())] for i in range(9)]

    def check(f):  # groups on CUDA contract products and sums
        for seen, known in zip(run(f), expected, strict=True):
            np.testing.assert_allclose(seen[0], known[0], 1e-6)
            np.testing.assert_allclose(seen[1], known[1], 1e-6)

    expected = run(fn)
    for inner in (ag.compile(fn, fullgraph=True), graphed(fn)):
        step = ag.cuda.make_graphed_step(inner)
        check(step)
        assert step.graphs == 1
    early = ag.cuda.make_graphed_step(ag.compile(fn), warmup=1)  # captured before there is a program
    check(early)
    for outer in (ag.compile, graphed):
        step = ag.cuda.make_graphed_step(fn)
        f = outer(step, fullgraph=True) if outer is ag.compile else outer(step)
        check(f)
        assert step.graphs == 0
        assert f.counts.compiled == 7


def test_replays_inside_are_refused(device):
    x = ag.ones(3, device=device)
    (x + 1).sum()
    recorded = ag.cuda.CUDAGraph()
    with ag.cuda.graph(recorded):
        y = x + 1

    f = ag.compile(lambda x: (recorded.replay(), y + x)[1])
    with pytest.warns(UserWarning, match="a CUDA graph is replayed"):
        assert f(x).tolist() == [3.0] * 3
    for i in range(4):
        assert f(ag.full((3,), float(i), device=device)).tolist() == [2.0 + i] * 3
    assert f.counts.compiled == 0


def test_a_failed_capture_leaves_everything(device):
    """A check of values cannot be captured: the program runs as in the default mode."""

    def run(wrap):
        ag.manual_seed(0)
        m = nn.Linear(3, 2).to(device)
        o = optim.Adam(m.parameters(), lr=0.1)

        def fn(x):
            o.zero_grad()
            noise = ag.rand(2, device=device)
            ((m(x) + noise) ** 2).sum().backward()
            o.step()
            return ag.distributions.Normal(noise, noise + 1, validate_args=True).log_prob(noise)

        f, seen = wrap(fn), []
        for x, _ in batches(device, (4,) * 6):
            f(x)
            state = [t for p in m.parameters() for t in (p, p.grad, *o.state[p].values())]
            seen.append(bits(t for t in state if isinstance(t, ag.Tensor)) + [p._version for p in m.parameters()])
        return seen, f

    expected, _ = run(lambda fn: fn)
    with pytest.warns(UserWarning, match="fn runs without a CUDA graph: .* cannot be captured"):
        seen, f = run(graphed)
    assert seen == expected
    assert f.counts.compiled == 3
    assert "no graph: " in str(f.explain())


@pytest.mark.parametrize(("fn", "arguments", "reason"), [
    (lambda x: x.t(), lambda d: (ag.ones(2, 3, device=d),), "a result is a view of an argument"),
    (lambda x: x + 1, lambda d: (ag.ones(3, device=d).expand(2, 3),), "an argument is expanded or flipped"),
    (lambda x, y: x + y, lambda d: (lambda a: (a, a[:]))(ag.ones(3, device=d)), "two arguments share memory"),
    (lambda x: x.cpu() + 1, lambda d: (ag.ones(3, device=d),), "it works with tensors in host memory"),
])  # fmt: skip
def test_programs_without_a_graph(fn, arguments, reason, device):
    f = graphed(fn)
    f(*arguments(device))
    with pytest.warns(UserWarning, match=reason):
        f(*arguments(device))  # the second trace makes the program
    for _ in range(3):
        x = arguments(device)
        assert bits([f(*x)]) == bits([fn(*x)])
    assert f.counts.compiled == 3


def test_fewer_launches_and_dropout_in_every_order_of_streams(schedule):
    """A captured step with a layer with relu, dropout, a loss with its gradient, and sums in groups."""

    def training(wrap):
        ag.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2)).to("cuda")
        o = optim.SGD(m.parameters(), lr=0.1)

        def step(x, y):
            o.zero_grad()
            z = m(x)
            penalty = (z.detach() * 2 + 1).square().mean()
            nn.functional.cross_entropy(z, y).backward()
            o.step()
            return penalty

        f, seen = wrap(step), []
        for x, y in batches("cuda", (8,) * 7):
            seen.append([f(x, y), *(t.detach().clone() for p in m.parameters() for t in (p, p.grad))])
        return [[t.cpu().numpy() for t in row] for row in seen], f

    expected, _ = training(lambda fn: fn)
    seen, f = training(graphed)
    for made, known in zip(seen, expected, strict=True):
        for one, other in zip(made, known, strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-6)
    assert f.explain().programs[0].graph == "1 CUDA graph"
