"""Cases about derivatives: rules, transforms, functions, backwards after the call."""

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.autograd import Function, grad
from autograd_gpu.utils.checkpoint import checkpoint

from .common import bits, called, case, data, each


class Cube(Function):
    """A function of operations, whose backward is one, too."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


@case
def functions(wrap):
    return each(wrap(lambda x: (Cube.apply(x), *grad(Cube.apply(x * 2).sum(), x))), requires_grad=True)


@case
def functions_under_hooks(wrap):
    pack, unpack = ag.compile.inlineable(lambda t: t.half()), ag.compile.inlineable(lambda t: t.float())

    def f(x):
        with ag.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = Cube.apply(x * 1.1).tanh()
        return grad(y.sum(), x)

    return each(wrap(f), requires_grad=True)


@case
def hooks_of_operations(wrap):
    pack, unpack = ag.compile.inlineable(lambda t: t.half()), ag.compile.inlineable(lambda t: t.float())
    w = data(3, 3, 3, requires_grad=True)

    def f(x):
        with ag.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = ((x @ w).tanh() * x).sin().sum()
        return grad(y, [x, w])

    return each(wrap(f), requires_grad=True)


@case
def fused_rules(wrap):
    ag.manual_seed(0)
    m = nn.LayerNorm(3)
    f = wrap(lambda x: grad((m(x) ** 3).sum(), [x, *m.parameters()]))
    r = nn.LSTM(3, 5, batch_first=True)
    g = wrap(lambda x: grad(r(x[None])[0].sum(), [x, *r.parameters()]))
    return each(f, requires_grad=True), each(g, requires_grad=True)


@case
def second_derivatives(wrap):
    w = data(1, 3, 5)

    def f(x):
        (first,) = grad((x.tanh() @ w).sin().sum(), x, create_graph=True)
        return grad((first * first).sum(), x)[0]

    return each(wrap(f), requires_grad=True)


@case
def transforms(wrap):
    w = data(1, 3, 5)

    def f(x):
        one = func.grad(lambda z: (z.sin() * z).sum())(x)
        two = func.vmap(func.hessian(lambda z: (z @ w).tanh().sum()))(x)
        three = func.jvp(lambda z: z.sin() * z, (x,), (x,))[1] + func.vjp(lambda z: z.exp(), x)[1](x)[0]
        return one, two, three, func.linearize(lambda z: z.sin() * z, x)[1](x)

    return each(wrap(f)), each(wrap(f), requires_grad=True)


@case
def checkpoints(wrap):
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    f = wrap(lambda x: grad(checkpoint(m, x, use_reentrant=False).sum(), x)[0])
    g = wrap(func.grad(lambda x: checkpoint(m, x, use_reentrant=False).sum()))  # no transform while it is traced
    return each(f, requires_grad=True), each(g)


@case
def backward_outside(wrap):
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
    f, g = wrap(m), wrap(lambda x, y: (x * y, (x * y).sin(), y.floor() * x))
    log = each(lambda x: f(x).sum().backward(), requires_grad=True, state=list(m.parameters()))
    for i in range(12):
        x, y = data(i, requires_grad=i % 3 != 1), data(i + 20, requires_grad=i % 3 != 2)
        a, b, c = g(x, y)
        picked = [a.sum(), (a * b).sum(), (b + c).sum()][i % 2]
        log.append((called(lambda p=picked: p.backward(retain_graph=True), state=[x, y]),
                    called(picked.backward, state=[x, y]), called(picked.backward)))  # fmt: skip
    return log


@case
def histories_of_arguments(wrap):
    w = data(1, 3, requires_grad=True)
    f, log = wrap(lambda x, y: (x * y * w).sum()), []
    for i in range(8):
        x = data(i, requires_grad=True)
        loss = f(x * 2, (x * 3).sin())
        (first,) = grad(loss, x, create_graph=True)
        log.append((bits(first), called(lambda first=first: first.sum().backward(), state=[x])))
    return log


@case
def graphs_that_are_freed(wrap):
    def f(x):
        y = (x * x).sum()
        y.backward()
        return y

    f, log = wrap(f), []
    for i in range(6):
        x = data(i, requires_grad=True)
        y = f(x)
        log.append((bits([y, x.grad]), called(y.backward)))
    return log


@case
def zeros_by_declaration(wrap):
    w, v = data(1, 3, requires_grad=True), data(2, 3, requires_grad=True)
    f, log = wrap(lambda x: (w.floor() * 2 + v * x).sum()), []
    for i in range(6):
        f(data(i)).backward()
        log.append(bits([w.grad, v.grad], versions=True))
        if i % 2:
            w.grad = None
    return log


@case
def second_derivatives_of_what_writes(wrap):
    m = nn.BatchNorm1d(3)
    f, log = wrap(lambda x: (m(x) ** 3).sum()), []
    for i in range(5):
        x = data(i, requires_grad=True)
        log.append((bits(grad(f(x), x)), bits([m.running_mean, m.running_var], versions=True)))
    return log
