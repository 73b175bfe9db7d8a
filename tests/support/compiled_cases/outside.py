"""Cases about tensors from outside, and constants."""

import autograd_gpu as ag
from autograd_gpu.autograd import grad

from .common import bits, called, case, changing, data, each

OUTSIDE = None


@case
def tensors_from_outside(wrap):
    global OUTSIDE
    OUTSIDE = data(20, 3)
    w, leaf, several = data(21, 3), data(22, 3, requires_grad=True), [data(23, 3), data(24, 3, requires_grad=True)]

    def f(x):
        return x * OUTSIDE + w * 2 + leaf.detach() + several[0] + (several[1] * 3).detach()

    def set_global():
        global OUTSIDE
        OUTSIDE = data(30, 3)

    def write():
        with ag.no_grad():
            [t.mul_(2) for t in (OUTSIDE, w, leaf, *several)]

    changes = [
        write, set_global, lambda: setattr(w, "data", data(31, 3)), lambda: setattr(leaf, "data", data(32, 3)),
        lambda: setattr(several[1], "data", data(33, 3)), lambda: several.__setitem__(0, data(34, 3)), write,
    ]  # fmt: skip
    return changing(f, wrap, *changes)


@case
def requires_grad_of_what_is_outside(wrap):
    w, v = data(20, 3), data(21, 3, requires_grad=True)
    f = wrap(lambda x: x * w + v)
    log = each(f, 4)
    for t, wanted in ((w, True), (v, False), (w, False), (v, True)):
        t.requires_grad_(wanted)
        log += each(f, 4)
    return log


@case
def history_of_what_is_outside(wrap):
    w = data(20, 3, requires_grad=True)
    box = [w * 2]
    f = wrap(lambda x: (x * box[0]).sum())
    log = []
    for i in range(12):
        if i % 4 == 0:
            box[0] = w * (i + 2)
        f(data(i)).backward(retain_graph=True)
        log.append(bits(w.grad))
    y = w * 3
    g = wrap(lambda x: (x * y).sum())
    for i in range(12):
        if i == 6:
            y.detach_()
        log.append(called(g, data(i)))
    return log


@case
def hooks_of_what_is_outside(wrap):
    w = data(20, 3, requires_grad=True)
    f, g = wrap(lambda x: grad((x * w).sum(), w)[0]), wrap(lambda x: grad((x * x * 2).sum(), x)[0])
    log = each(f, 4)
    handle = w.register_hook(lambda g: g * 5)
    log += each(f, 4)
    handle.remove()
    for i in range(8):
        x = data(i, requires_grad=True)
        if i > 4:
            x.register_hook(lambda g: g * 5)
        log.append(called(g, x))
    return log


@case
def constants_of_content(wrap):
    f = wrap(lambda x: x * ag.tensor([1.0, 2.0, 3.0]) + ag.arange(3) + ag.zeros(3) + ag.ones(4, 3) * 2)
    fixed = ag.tensor([1.0, 0.0])
    return each(f) + each(wrap(lambda x: x * (2 if bool(ag.tensor([1.0, 0.0]).any()) else 3)), 4) + [bits(fixed)]


@case
def writes_to_constants(wrap):
    def f(x):
        z = ag.zeros(4, 3)
        before = z * 3
        z[0] = x[1]
        z += 1
        y, folded = ag.tensor([1.0, 2.0, 3.0]), ag.ones(3) * 2
        folded.add_(x[0])
        return z, z * 2, before, y, y.add_(x[0]), folded

    f, log = wrap(f), []
    for i in range(5):
        results = f(data(i))
        log.append(bits(results))
        results[3].zero_()
    return log


@case
def constants_as_results(wrap):
    f, log = wrap(lambda x: (ag.zeros(3), ag.ones(3) * 2, x * 2)), []
    for i in range(5):
        zeros, twos, _ = f(data(i))
        log.append(bits([zeros, twos]))
        zeros.add_(1), twos.mul_(3)
    return log
