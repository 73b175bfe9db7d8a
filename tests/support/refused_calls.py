"""Functions of a tensor that `ag.compile` refuses to record, by name, and what the warning says."""

import re
import warnings

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import Function

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
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)  # which counts a write
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return lambda x: Same.apply(x.detach()) * 2


@refused("a version is incremented by hand")
def version():
    b = ag.zeros(3)

    def f(x):
        ag.autograd.graph.increment_version(b)
        return x * b._version

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


def fault(name):
    """What is wrong with the compiled run of one of the functions, or ""."""
    make, pattern = REFUSED[name]
    expected = calls(started(make))
    f = ag.compile(started(make))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if calls(f) != expected:
            return "other results"
    warned = [str(w.message) for w in caught if "runs eagerly" in str(w.message)]
    if len(warned) != 1 or not re.search(pattern, warned[0]):
        return f"it warns of {warned}"
    return "" if f.counts.compiled == 0 and f.counts.eager >= 3 else f"not refused: {f.counts}"
