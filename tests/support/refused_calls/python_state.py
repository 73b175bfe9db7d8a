"""Calls with optimizers that are not recorded, and that change Python state."""

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import grad

from .common import refused


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


@refused("Slower.step is not the library's")
def optimizer_of_a_user():
    class Slower(optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data = p.data - 0.01 * p.grad

    w = ag.ones(3, requires_grad=True)
    o = Slower([w], lr=0.1)

    def f(x):
        w.grad = x.detach().sum(0)
        o.step()
        return w.detach() * 1

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
        return grad(y.sum(), x)[0]

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
def detached_outside():
    b = ag.zeros(4, 3)

    def f(x):
        b.detach_()
        b.add_(x)
        return b * 1

    return f
