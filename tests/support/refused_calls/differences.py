"""Calls that do another thing each time."""

import contextlib
import itertools

import autograd_gpu as ag
from autograd_gpu import nn

from .common import refused


def varying(*branches):
    """A function that does in turns what the branches do; nothing that is watched tells which one."""
    turns = itertools.cycle(branches)
    return lambda x: next(turns)(x)


@refused("and the next one")
def number_of_operations():
    return varying(lambda x: x.detach() * 2, lambda x: x.detach() * 2 + 1)


@refused("in one call, and .* in the next one")
def other_operations():
    return varying(lambda x: x.sin(), lambda x: x.cos())


@refused("has another tensor in the next call")
def shape_of_an_operand():
    w, v = ag.ones(3), ag.ones(4, 3) * 2
    return varying(lambda x: x * w, lambda x: x * v)


@refused("uses a tensor that is another one in the next call")
def other_parameters():
    w, v = (nn.Parameter(ag.ones(3) * i) for i in (2, 3))
    return varying(lambda x: x * w, lambda x: x * v)


@refused("the call changes a container among its arguments")
def container_of_an_argument():
    return lambda xs: xs.append(1) or xs[0] * 2, lambda x: [x]


@refused("inside of saved-tensor hooks")
def unmarked_hooks_around_calls():
    around = contextlib.ExitStack()

    def given(x):
        around.enter_context(ag.autograd.graph.saved_tensors_hooks(lambda t: t, ag.compile.inlineable(lambda t: t)))
        return x

    def shown(y):
        around.close()
        return y

    return lambda x: x.exp(), given, shown


@refused("gets other tensors in the next call")
def order_of_operands():
    def minus(order):
        return lambda x: (lambda y, z: y - z)(*(x.sin(), x.cos())[::order])

    return varying(minus(1), minus(-1))


@refused("the structure of the result differs")
def structure_of_results():
    return varying(lambda x: [x * 2], lambda x: (x * 2,)), None, lambda results: results[0] * isinstance(results, list)


@refused("a result that is no tensor differs")
def numbers_beside_results():
    return varying(lambda x: (x * 2, 1), lambda x: (x * 2, 3)), None, lambda results: results[0] * results[1]


@refused("whether a result requires grad differs")
def history_of_results():
    return varying(lambda x: x, lambda x: x.detach()), None, lambda y: y.detach() * y.requires_grad


@refused("a result is made of other tensors")
def other_results():
    return varying(lambda x: (x.sin(), x.cos()), lambda x: (x.sin(), x.cos())[::-1]), None, lambda y: y[0]


@refused("the .grad of another tensor is set")
def other_grads():
    w, v = (ag.ones(3, requires_grad=True) for _ in range(2))

    def setting(i):
        def f(x):
            w.grad = v.grad = None
            (w, v)[i].grad = x[0].detach() * 2
            return x.detach() * 1

        return f

    return varying(setting(0), setting(1)), None, lambda y: ag.stack([t.grad for t in (w, v) if t.grad is not None])
