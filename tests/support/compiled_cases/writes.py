"""Cases about in-place writes, views and random numbers."""

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd import grad

from .common import bits, called, case, data, each


@case
def writes(wrap):
    b, buffer, other = ag.zeros(4, 3), ag.zeros(4, 3), data(9)

    def f(x):
        y = x * 2
        before = y.sin()
        y.add_(x)
        v = y[0]
        v.mul_(3.0)
        y[1:].copy_(x[:-1])
        y[:, 1] = 2.0
        b.add_(x)
        ag.mul(x, 2.0, out=buffer)
        early = other * 3
        other.neg_()
        return y.sin(), v, before, x + b, buffer * 1, early + other * 3

    return each(wrap(f), state=[b, buffer, other])


@case
def results_that_are_equal(wrap):
    """Each of them is memory of its own."""
    def f(x):
        y, z = x * 2, x * 2
        y.add_(1)
        return y, z, x.sin(), x.sin(), x.clone(), x

    f, log = wrap(f), []
    for i in range(5):
        results = f(data(i))
        for k, y in enumerate(results):
            y.mul_(k + 2)
        log.append(bits(results))
    return log


@case
def writes_to_arguments(wrap):
    def f(x):
        y = x * 2
        x.mul_(2.0)
        x[0].add_(1)
        return x + 1, x.detach(), y, x * 2

    f, log = wrap(f), []
    for i in range(5):
        x = data(i)
        view = x[1:]
        log.append((called(f, x, state=[x]), bits(view, versions=True)))
    return log


@case
def writes_before_backward(wrap):
    w = data(3, 3, requires_grad=True)

    def f(x):
        y = x * w
        y[0].mul_(3.0)
        y.mul_(y)
        z = y.clone()
        z[:, 0].tanh_()
        return grad((z * y).sum(), [x, w])

    return each(wrap(f), requires_grad=True)


@case
def errors_of_versions(wrap):
    """What a backward reads was written to: eager's error."""
    def f(x, b):
        y = x * b
        return y, (y * y).sum()

    f, log = wrap(f), []
    for i in range(10):
        x, b = data(i, requires_grad=True), data(i + 10)
        y, z = f(x, b)
        if i % 2:
            with ag.no_grad():
                (b if i % 4 == 1 else y.detach()).add_(1)
        result, state = called(lambda z=z: z.backward(), state=[x])
        log.append((result and result[1].partition("[")[0], state))  # not which tensor it was
    return log


@case
def versions_of_what_is_written(wrap):
    b = ag.zeros(4, 3)
    f, log = wrap(lambda x: b.copy_(x).sum()), []
    w = data(1, 4, 3, requires_grad=True)
    for i in range(6):
        held = (w * b).sum()
        log.append((called(f, data(i)), b._version, called(held.backward)))
    return log


@case
def several_tensors_at_once(wrap):
    w = [data(i, 3) for i in range(2)]

    def f(x):
        ag.foreach.mul_(w, 1.5)
        return ag.foreach.add(w, [x, x * 2])

    return each(wrap(f), state=w)


@case
def views_as_results(wrap):
    w = data(8)
    f, log = wrap(lambda x: (x[0], x.view(12), x * 2, x.detach(), w[1:], w.detach(), x, w)), []
    g = wrap(lambda x: ((y := x * 2), y[0], y.detach(), y))
    for i in range(5):
        x = data(i)
        with ag.no_grad():
            results = f(x)
            first, flat, _, detached, rows, alias, same, outside = results
            log.append(bits(results))
            flat.add_(1), rows.mul_(2), detached.sub_(3), alias.add_(1)
        log.append((bits([x, first, w], versions=True), same is x, outside is w, first._base is x, rows._base is w))
        y, row, plain, again = g(x)
        row.add_(1), plain.mul_(2)
        log.append((bits([y, row, plain]), y._version, again is y))
    return log


@case
def draws(wrap):
    def f(x):
        unused = ag.rand(3), nn.functional.dropout(x, 0.5)
        a, b = ag.rand(3), ag.rand(3)
        c, d = nn.functional.dropout(x, 0.5), nn.functional.dropout(x, 0.5)
        del unused
        return a - b + c - d + ag.randn(4, 3) * ag.zeros(3), ag.ones(4, 3).bernoulli(0.5), ag.randperm(4)

    ag.manual_seed(0)
    return each(wrap(f)), bits(ag.rand(2))


@case
def draws_with_a_backward_outside(wrap):
    w = data(1, 3, requires_grad=True)
    f, log = wrap(lambda x: (nn.functional.dropout(x * w, 0.5) ** 3).sum()), []
    ag.manual_seed(0)
    for i in range(6):
        (first,) = grad(f(data(i)), w, create_graph=True)
        log.append((bits(first), called(lambda first=first: first.sum().backward(), state=[w])))
    return log, bits(ag.rand(2))


@case
def draws_under_vmap(wrap):
    f = wrap(lambda x: ag.func.vmap(lambda r: r + ag.rand(3), randomness="different")(x))
    ag.manual_seed(0)
    return each(f), bits(ag.rand(2))
