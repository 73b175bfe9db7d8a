"""What cannot be recorded is refused: the call stays eager and right, and one warning says why, where, what to do."""

import re
import warnings

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.autograd import Function, grad

pytestmark = pytest.mark.cpu
REFUSED = {}


def refused(pattern):
    """Registers make(), which gives a function of a tensor of shape (4, 3), and what the warning says."""

    def register(make):
        REFUSED[make.__name__] = make, pattern
        return make

    return register


@refused("the values of a tensor are read")
def item():
    return lambda x: x * x.sum().item()


@refused("the values of a tensor are read")
def branch():
    return lambda x: x * 2 if float(x.sum()) > 0 else x - 1


@refused("the values of a tensor are read")
def array():
    return lambda x: ag.as_tensor(x.array**2) + x


@refused("a tensor from outside, are read")
def values_from_outside():
    w = ag.tensor([2.0])
    return lambda x: x * w.item()


@refused("the values of a tensor are read")
def function_of_arrays():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            return ag.as_tensor(x.array * x.array)

    return Square.apply


@refused("the size of the result of advanced_index depends on values")
def mask():
    return lambda x: x[x > 0].sum()


@refused("the size of the result of repeat_positions depends on values")
def repeats():
    counts = ag.tensor([1, 2, 0, 1])
    return lambda x: x.repeat_interleave(counts, 0)


@refused("memory of a tensor is written to beside the operations")
def write_beside():
    def f(x):
        ag.autograd.graph.increment_version(x)
        return x * 2

    return f


@refused("a generator is seeded")
def seed():
    def f(x):
        ag.manual_seed(0)
        return x + ag.rand(3)

    return f


@refused("a checkpoint draws random numbers a second time")
def checkpointed_dropout():
    drop = nn.Dropout(0.5)

    def f(x):
        y = ag.utils.checkpoint.checkpoint(lambda z: drop(z).exp(), x, use_reentrant=False)
        return ag.autograd.grad(y.sum(), x)[0]

    return f


@refused("a hook on a tensor or a node of the graph runs")
def tensor_hook():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return ag.autograd.grad(y.sum(), x)[0]

    return f


@refused("the graph of a result has hooks")
def tensor_hook_on_a_result():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y + 1

    return f


@refused("Linear has hooks")
def module_hook():
    m = nn.Linear(3, 2)
    m.register_forward_hook(lambda module, args, out: out * 2)
    return m


def trained(*more):
    m = nn.Linear(3, 2)
    o = optim.SGD(m.parameters(), lr=0.1)

    def f(x):
        o.zero_grad()
        loss = (m(x) ** 2).sum()
        loss.backward()
        o.step()
        for do in more:
            do(o)
        return loss.detach()

    return m, o, f


@refused("an optimizer has hooks")
def optimizer_hook():
    _, o, f = trained()
    o.register_step_post_hook(lambda *args: None)
    return f


@refused(r"step\(\) of a learning-rate scheduler")
def scheduler():
    m, o, _ = trained()
    s = optim.lr_scheduler.StepLR(o, 100)

    def f(x):
        o.step()
        s.step()
        return m(x).detach()

    return f


@refused("the call changes options of an optimizer")
def options_after_the_step():
    def halve(o):
        vars(o)["param_groups"][0]["lr"] *= 0.5  # code that names o.param_groups is found earlier

    return trained(halve)[2]


@refused("the call changes options of an optimizer")
def options_before_the_step():
    _, o, step = trained()

    def f(x):
        vars(o)["param_groups"][0]["lr"] *= 0.5
        return step(x)

    return f


@refused("the call changes options of an optimizer")
def options_for_the_step_only():
    _, o, step = trained()

    def f(x):
        vars(o)["param_groups"][0]["lr"] *= 0.5
        loss = step(x)
        vars(o)["param_groups"][0]["lr"] *= 2.0
        return loss

    return f


@refused("a step of LBFGS")
def lbfgs():
    w = ag.ones(3, requires_grad=True)
    o = optim.LBFGS([w], max_iter=2)

    def f(x):
        def closure():
            o.zero_grad()
            loss = ((x.detach() @ w) ** 2).sum()
            loss.backward()
            return loss

        return o.step(closure).detach()

    return f


@refused("GradScaler.scale")
def grad_scaler():
    scaler = ag.amp.GradScaler("cpu")
    return lambda x: scaler.scale(x).detach()


@refused("the step of a differentiable optimizer")
def differentiable():
    w = ag.ones(3, requires_grad=True).clone()
    o = optim.SGD([w], lr=0.1, differentiable=True)

    def f(x):
        w.grad = x.detach().sum(0)
        o.step()
        return w.detach()

    return f


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen = 0, []

    def forward(self, x):
        self.calls += 1
        return x * 2


class Keeper(Counter):
    def forward(self, x):
        self.seen.append(x.detach())
        return x * 2


class Setter(Counter):
    def forward(self, x):
        self.last = x * 2
        return self.last


@refused("the call changes Counter.calls")
def attribute_of_a_module():
    return Counter()


@refused("the call changes Keeper.seen")
def list_of_a_module():
    return Keeper()


@refused("the call changes self.last")
def attribute_that_is_only_set():
    return Setter()


@refused("the call changes count")
def cell():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    return f


@refused("whose values differ from call to call and are no argument")
def numbers_of_numpy():
    random = np.random.default_rng(0)
    return lambda x: x * ag.tensor([random.random()])


@refused("got other options in the next call")
def numbers_of_python():
    random = np.random.default_rng(0)
    return lambda x: x * float(random.random())


@refused("ag.tensor copies the values of an array")
def copied_array():
    values = np.ones(3, "f4")
    return lambda x: x * ag.tensor(values)


@refused("saved-tensor hooks are set")
def saved_tensor_hooks():
    def f(x):
        with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x.exp()
        return ag.autograd.grad(y.sum(), x)[0]

    return f


@refused("a function is marked with compiler.disable")
def disabled():
    inner = ag.compiler.disable(lambda x: x * 2)
    return lambda x: inner(x) + 1


@refused("the call leaves a mode of the thread changed")
def mode_left_on():
    def f(x):
        y = x * 2
        ag.set_grad_enabled(not ag.is_grad_enabled())
        return y.detach()

    return f


@refused("another history, or another requires_grad")
def history_of_what_is_outside():
    b = ag.zeros(4, 3)

    def f(x):
        b.detach_()
        b.add_(x)
        return b * 1

    return f


def calls(f, count=7):
    random, seen = np.random.default_rng(1), []
    for _ in range(count):
        result = f(ag.tensor(random.uniform(-1, 1, (4, 3)).astype("f4"), requires_grad=True))
        seen.append(result._array.tobytes())
    return seen


def started(make):
    ag.manual_seed(0)
    f = make()
    ag.manual_seed(1)
    return f


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, pattern = REFUSED[name]
    expected = calls(started(make))
    f = ag.compile(started(make))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert calls(f) == expected
    (warning,) = [w for w in caught if "runs eagerly" in str(w.message)]
    assert re.search(pattern, str(warning.message)), str(warning.message)
    assert f.counts.compiled == 0
    assert f.counts.eager >= 3


@pytest.mark.parametrize("name", ["item", "mask", "module_hook", "attribute_of_a_module", "numbers_of_python"])
def test_fullgraph_raises(name):
    make, pattern = REFUSED[name]
    f = ag.compile(started(make), fullgraph=True)
    with pytest.raises(ag.compile.CompileError, match=pattern):
        calls(f)


def test_the_warning_names_the_line():
    f = ag.compile(item())
    with pytest.warns(UserWarning, match=rf"{re.escape(__file__)}:{item.__code__.co_firstlineno + 2}"):
        calls(f, 1)


def test_modes_of_the_caller():
    f = ag.compile(lambda x: x * 2)
    ag.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        with pytest.warns(UserWarning, match="anomaly mode is on"):
            calls(f, 3)
    finally:
        ag.autograd.set_detect_anomaly(False)
    with pytest.warns(UserWarning, match="inside of saved-tensor hooks"), ag.autograd.graph.save_on_cpu():
        calls(f, 3)
    assert (f.counts.traced, f.counts.eager) == (0, 6)


def test_arguments_without_a_key():
    f = ag.compile(lambda x, y: x + 1)
    with pytest.warns(UserWarning, match="neither a tensor nor hashable"):
        f(ag.ones(2), np.ones(2))


def test_inside_of_a_transform_it_is_python():
    f = ag.compile(lambda x: (x * x).sum())
    for _ in range(3):
        assert (ag.func.vmap(f)(ag.ones(3, 2)) == 2).all()
    assert (f.counts.traced, f.counts.compiled, f.counts.eager) == (0, 0, 0)
    outer = ag.compile(lambda x: f(x) * 2)
    for _ in range(3):
        assert outer(ag.ones(2)) == 4
    assert (outer.counts.compiled, f.counts.traced) == (1, 0)


def test_containers_among_the_arguments():
    f = ag.compile(lambda x, found: found.append(x))
    with pytest.warns(UserWarning, match="changes a container among its arguments"):
        f(ag.ones(2), [])


def test_a_tensor_from_outside_in_the_memory_of_an_argument():
    x = ag.ones(4, 3)
    row = x[0]
    f = ag.compile(lambda x: x * row)
    with pytest.warns(UserWarning, match="shares memory with a tensor that the function knows"):
        f(x)


def test_a_leaf_beside_what_is_computed_from_it():
    w = ag.ones(3, requires_grad=True)
    f = ag.compile(lambda x: (w, w * w * x))
    with pytest.warns(UserWarning, match="a leaf is returned beside"):
        f(ag.ones(3))


@pytest.mark.parametrize("beside", [False, True])
def test_a_leaf_that_the_call_makes_is_no_result(beside):
    """A replay would give a result of CompiledBackward in its place."""

    def f(x):
        at = x.clone().detach().requires_grad_()
        return ((at**3).sum(), at) if beside else (at,)

    compiled = ag.compile(f)
    with pytest.warns(UserWarning, match="a result is a leaf that requires grad and was made by the call"):
        compiled(ag.ones(3))
    for i in range(3):
        *out, at = compiled(ag.full((3,), float(i)))
        assert at.is_leaf
        assert not beside or grad(*out, at)[0].tolist() == [3.0 * i * i] * 3


def test_a_derivative_of_higher_order_finds_the_tensors_of_the_call():
    """It runs the function again, when functional_call has put back the parameters."""
    layer = nn.Linear(2, 1)
    layer.compile()
    x = ag.ones(1, 2, requires_grad=True) * 2
    out = func.functional_call(layer, {name: p * 3 for name, p in layer.named_parameters()}, (x,))
    with pytest.raises(RuntimeError, match="weight is another tensor than in the call"):
        grad(out.sum(), x, create_graph=True)
    (first,) = grad(layer(x).sum(), x, create_graph=True)
    assert first.tolist() == layer.weight.tolist()


@pytest.mark.parametrize("f", [
    lambda y, x: nn.functional.leaky_relu_(y, 0.1) * x,
    lambda y, x: y * grad(y.sum(), x, create_graph=True)[0],
], ids=["writes", "differentiates"])  # fmt: skip
def test_a_call_that_needs_the_history_of_an_argument_runs_as_it_is(f):
    x, seen = ag.tensor([1.0, -2.0], requires_grad=True), []
    compiled = ag.compile(f)
    with pytest.warns(UserWarning, match="it needs the history of an argument, without which it raises: "):
        compiled(x**3, x)
    for call in (f, compiled, compiled):
        (first,) = grad(call(x**3, x).sum(), x, create_graph=True)
        seen.append((first.tolist(), grad((first**2).sum(), x)[0].tolist()))
    assert seen[0] == seen[1] == seen[2]
    assert compiled.counts.eager == 2


def test_an_error_of_a_call_with_a_history_is_raised_once_more_and_refuses_nothing():
    x = ag.ones(2, requires_grad=True)
    compiled = ag.compile(lambda y, size: y.view(size))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape"):
            compiled(x * 2, (3,))
    assert compiled.explain().refused == []
