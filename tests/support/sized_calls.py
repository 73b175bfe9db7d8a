"""Calls with tensors of several sizes, as they are and compiled with dynamic=True, compared bit by bit."""

import numpy as np

import autograd_gpu as ag

SIZES = (32, 32, 17, 64, 5, 6, 100, 2, 1, 9)


def given(n, *shape, grad=True):
    values = np.random.default_rng(n).normal(size=(n, *shape)).astype("f4")
    return ag.tensor(values, requires_grad=grad)


def flat(x):
    if isinstance(x, ag.Tensor):
        return [(x.detach().numpy().tobytes(), tuple(x.shape), str(x.dtype), x.requires_grad)]
    if isinstance(x, (tuple, list)):
        return [part for y in x for part in flat(y)]
    return [x]


def outcome(fn, x):
    try:
        return flat(finished(fn(x)))
    except (RuntimeError, IndexError, ValueError) as error:
        return [type(error), str(error)]


def run(make, sizes=SIZES, data=given, shape=(4,), **options):
    """Calls make()'s function over the sizes, as it is and compiled; the compiled function."""
    ag.manual_seed(0)
    eager, state = make()
    own, mine = make()
    compiled = ag.compile(own, dynamic=True, **options)
    for n in sizes:
        a, b = data(n, *shape), data(n, *shape)
        ag.manual_seed(n)
        expected = outcome(eager, a)
        ag.manual_seed(n)
        assert outcome(compiled, b) == expected, n
        assert flat([x for x in (a.grad, b.grad) if x is not None][:1]) == flat([] if b.grad is None else [b.grad]), n
        assert flat(state) == flat(mine), n
    return compiled


def finished(result):
    """The result, after the backward of what has a history."""
    for x in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(x, ag.Tensor) and x.requires_grad and not x.is_leaf:
            (x * x).sum().backward(retain_graph=True)
    return result
