"""Programs, each compiled and as it is, on the same data: results and state are equal bit for bit, call by call."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.autograd import grad

pytestmark = pytest.mark.cpu
F = nn.functional
CALLS = 7
PROGRAMS = {}


def program(make):
    """Registers make(), which gives a function of a tensor of shape (4, 3), and a list of what else it changes."""
    PROGRAMS[make.__name__] = make
    return make


def weight(*shape):
    values = np.random.default_rng(0).uniform(-1, 1, shape).astype("f4")
    return ag.tensor(values, requires_grad=True)


@program
def writes():
    def f(x):
        y = x * 2
        y.add_(x)
        y.mul_(3.0)
        return y.sin()

    return f, []


@program
def writes_to_views():
    def f(x):
        y = x * 2
        v = y[0]
        v.mul_(3.0)
        y[1:].copy_(x[:-1])
        y[:, 1] = 2.0
        return y.sin(), v

    return f, []


@program
def write_before_backward():
    def f(x):
        y = x * 2
        y[0].mul_(3.0)
        y.mul_(y)
        return grad((y * y).sum(), x)[0]

    return f, []


@program
def write_to_what_is_outside():
    b = ag.zeros(4, 3)

    def f(x):
        b.add_(x.detach())
        return x + b

    return f, [b]


@program
def write_to_a_constant():
    def f(x):
        z = ag.zeros(4, 3)
        z[0] = x[1]
        z += 1
        return z, ag.ones(2)

    return f, []


@program
def write_to_the_argument():
    def f(x):
        with ag.no_grad():
            x.mul_(2.0)
        return x + 1, x.detach()

    return f, []


@program
def out_argument():
    buffer = ag.zeros(4, 3)

    def f(x):
        ag.mul(x.detach(), 2.0, out=buffer)
        return buffer + x

    return f, [buffer]


@program
def no_grad_block():
    def f(x):
        with ag.no_grad():
            z = x * 3
        return (x * z).sum()

    return f, []


@program
def views_as_results():
    def f(x):
        return x[0], x.view(12), x * 2

    return f, []


@program
def an_argument_as_result():
    def f(x):
        return x, x * 2

    return f, []


@program
def structure_of_results():
    def f(x):
        y = x * 2
        return {"y": y, "again": [y, y[0]], "n": 3, "none": None}

    return f, []


@program
def dropout():
    def f(x):
        return F.dropout(x, 0.5), grad(F.dropout(x * 2, 0.5).sum(), x)[0], x + ag.randn(4, 3) + ag.rand(4, 3)

    return f, []


@program
def factories():
    return lambda x: x + ag.zeros(4, 3) + ag.tensor([1.0, 2.0, 3.0]) + ag.arange(3), []


@program
def transforms():
    w = weight(3, 5).detach()

    def f(x):
        one = func.grad(lambda z: (z.sin() * z).sum())(x)
        two = func.vmap(func.hessian(lambda z: (z @ w).tanh().sum()))(x)
        three = func.jvp(lambda z: z.sin() * z, (x,), (x,))[1] + func.vjp(lambda z: z.exp(), x)[1](x)[0]
        four = func.hessian(lambda z: (z @ w).exp().sum())(x[0])
        return one, two, three, four, func.linearize(lambda z: z.sin() * z, x)[1](x)

    return f, []


@program
def recurrent():
    m = nn.LSTM(3, 5, batch_first=True)
    return lambda x: grad(m(x[None])[0].sum(), [x, *m.parameters()]), []


@program
def layer_norm():
    m = nn.LayerNorm(3)
    return lambda x: grad((m(x) ** 3).sum(), [x, *m.parameters()]), []


@program
def batch_norm():
    m = nn.BatchNorm1d(3)
    return m, [m.running_mean, m.running_var, m.num_batches_tracked]


@program
def checkpoint():
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return lambda x: grad(ag.utils.checkpoint.checkpoint(m, x, use_reentrant=False).sum(), x)[0], []


@program
def lists_of_tensors():
    def f(x):
        ys = [x * 1, x + 1]
        ag.foreach.mul_(ys, 2.0)
        return ag.foreach.mul(ys, [x, ys[0]])

    return f, []


@program
def choices_by_value():
    i = ag.tensor([[0, 1], [1, 2], [0, 0], [2, 2]])

    def f(x):
        return x.quantile(0.3), (x * 60).softmax(-1), x.gather(1, i), x[ag.arange(4), x.argmax(1)], x.sort(1)

    return f, []


@program
def distributions():
    def f(x):
        normal = ag.distributions.Normal(x, x.exp())
        return normal.rsample(), normal.log_prob(x * 2), ag.distributions.Categorical(logits=x).entropy()

    return f, []


@program
def half_types():
    return lambda x: ((x.half() * 3).float() * x.bfloat16().float()).sum(0), []


@program
def grad_accumulates():
    w = weight(3, 3)

    def f(x):
        (x @ w).sum().backward()
        return w.grad * 2, w.grad

    return f, [w]


@program
def grad_of_an_argument():
    def f(x):
        (x * x).sum().backward()
        return x.grad

    return f, []


def training(make, **options):
    def start():
        m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        o = make(m.parameters(), **options)

        def step(x):
            o.zero_grad()
            loss = (m(x) ** 2).sum()
            loss.backward()
            o.step()
            return loss

        return step, list(m.parameters())

    return start


for made in (optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adadelta, optim.Adagrad,
             optim.RMSprop, optim.Rprop, optim.ASGD):  # fmt: skip
    PROGRAMS[made.__name__] = training(made, lr=0.01)
PROGRAMS["momentum"] = training(optim.SGD, lr=0.01, momentum=0.9, nesterov=True)


@program
def zero_grad_in_place():
    m = nn.Linear(3, 2)
    o = optim.SGD(m.parameters(), lr=0.1)

    def f(x):
        o.zero_grad(set_to_none=False)
        loss = (m(x) ** 2).sum()
        loss.backward()
        o.step()
        return loss

    return f, list(m.parameters())


def clipped(clip):
    def start():
        m = nn.Linear(3, 2)
        o = optim.SGD(m.parameters(), lr=0.1)

        def f(x):
            o.zero_grad()
            (m(x) ** 2).sum().backward()
            result = clip(m.parameters())
            o.step()
            return result

        return f, list(m.parameters())

    return start


PROGRAMS["clip_grad_norm"] = clipped(lambda ps: nn.utils.clip_grad_norm_(ps, 0.1))
PROGRAMS["clip_grad_value"] = clipped(lambda ps: nn.utils.clip_grad_value_(ps, 0.1))


@program
def averaged_model():
    m = nn.Linear(3, 2)
    a = optim.swa_utils.AveragedModel(m)

    def f(x):
        with ag.no_grad():
            m.weight.add_(x[:2] * 0.1)
        a.update_parameters(m)
        return a(x)

    return f, [*m.parameters(), *a.parameters(), a.n_averaged]


@program
def inlineable_hooks():
    pack, unpack = ag.compile.inlineable(lambda t: t.half()), ag.compile.inlineable(lambda t: t.float())
    w = weight(3, 3)

    def f(x):
        with ag.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = ((x @ w).tanh() * x).sin().sum()
        return grad(y, [x, w])

    return f, []


@program
def backward_outside():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.Dropout(0.5)), []


def bits(results):
    leaves, _ = ag.utils._pytree.tree_flatten(results)
    return [(t._array.tobytes(), t.shape, t.dtype, t.requires_grad) if isinstance(t, ag.Tensor) else t for t in leaves]


def runs(make, compiled, count=CALLS):
    """The bits of results, gradients and state at each call, and the function."""
    ag.manual_seed(0)
    f, state = make()
    f = ag.compile(f) if compiled else f
    random, seen = np.random.default_rng(1), []
    for _ in range(count):
        x = ag.tensor(random.uniform(-1, 1, (4, 3)).astype("f4"), requires_grad=True)
        result = f(x)
        seen.append(bits(result))
        if isinstance(result, ag.Tensor) and result.requires_grad and x.grad is None:
            try:
                result.sum().backward()
            except RuntimeError as error:
                seen.append(type(error))
        seen.append(bits([x, x.grad, *state, *(t.grad for t in state)]))
    return seen, f


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_equal_bit_for_bit(name):
    expected, _ = runs(PROGRAMS[name], False)
    seen, f = runs(PROGRAMS[name], True)
    assert seen == expected
    assert f.counts.eager == 0
    assert f.counts.compiled >= CALLS - 4


@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_zeros_and_aliases(inside):
    """`.grad` of what only ZERO edges reach, and of a parameter that an alias meets first."""

    def seen(wrap, reset):
        w, v, u = (ag.ones(3, requires_grad=True) for _ in range(3))
        alias = u.detach()

        def f(x):
            loss = (w.floor() * 2 + v * x + alias * 2 + u * 3).sum()
            return loss.backward() if inside else loss

        call, log = wrap(f), []
        for i in range(9):
            if i in reset:
                w.grad = None
            loss = call(ag.ones(3))
            if not inside:
                loss.backward()
            log.append([(t.grad.tolist(), t.grad._version) for t in (w, v, u)])
            if i % 3 == 1:
                w.grad.add_(1.0)
        return log

    for reset in (range(9), (), (5,), (0, 1, 2)):
        assert seen(ag.compile, reset) == seen(lambda f: f, reset)


def test_a_grad_that_the_call_sets_and_adds_to_counts_writes():
    def seen(wrap):
        w = ag.ones(3, requires_grad=True)

        def f(x):
            w.grad = None
            (w * x).sum().backward()
            (w * x * x).sum().backward()

        call, log = wrap(f), []
        for _ in range(5):
            call(ag.ones(3))
            log.append((w.grad.tolist(), w.grad._version))
        return log

    assert seen(ag.compile) == seen(lambda f: f)


def test_a_step_without_grads_is_another_program():
    def seen(wrap):
        w = ag.ones(3, requires_grad=True)
        optimizer, log = ag.optim.SGD([w], lr=0.5), []

        def f(x):
            optimizer.step()
            return x * 2

        call = wrap(f)
        for i in range(8):
            if i > 3:
                w.grad = ag.ones(3)
            call(ag.ones(3))
            log.append((w.tolist(), w._version))
        return log

    assert seen(ag.compile) == seen(lambda f: f)


@pytest.mark.parametrize("frees", [True, False])
def test_results_of_calls_have_nodes_of_their_own_with_the_edges_of_all(frees):
    v, w = ag.ones(3, requires_grad=True), ag.ones(3, requires_grad=True)
    heard = []

    def f(x):
        loss = (v * w * x).sum()
        if frees:
            loss.backward()
        return loss

    compiled = ag.compile(f)
    losses = [compiled(ag.ones(3)) for _ in range(6)]
    assert compiled.counts.compiled >= 3
    nodes = [loss.grad_fn for loss in losses[-3:]]
    assert len({id(node) for node in nodes}) == 3
    assert nodes[0]._sequence_nr() < nodes[1]._sequence_nr() < nodes[2]._sequence_nr()
    assert nodes[1].next_functions == nodes[2].next_functions != ()
    nodes[1].metadata["mine"] = 1
    nodes[1].register_prehook(lambda grads: heard.append(1))
    for loss in (losses[-1], again := compiled(ag.ones(3))):
        if frees:
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
        else:
            loss.backward()
    assert heard == []
    assert not again.grad_fn.metadata
    for requires_grad in (False, True):
        w.requires_grad_(requires_grad)
        loss = [compiled(ag.ones(3)) for _ in range(3)][-1]
        assert loss.grad_fn.name() == nodes[0].name()
        assert {node for node, _ in loss.grad_fn.next_functions} == {v._fn, *([w._fn] if requires_grad else ())}


def test_an_argument_that_requires_grad_is_an_edge_of_the_node_of_its_call():
    w = ag.ones(3, requires_grad=True)
    compiled = ag.compile(lambda x: (x * w).sum())
    for _ in range(6):
        x = ag.ones(3, requires_grad=True)
        loss = compiled(x)
        loss.backward()
        assert x.grad.tolist() == [1.0, 1.0, 1.0]
    assert compiled.counts.compiled >= 3
