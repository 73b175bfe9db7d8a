"""Calls whose histories, memory or dtypes cannot be recorded."""

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.utils.checkpoint import checkpoint

from .common import refused


@refused("a checkpoint's policy replaces the forward of ops")
def policy_of_a_checkpoint():
    save = ag.utils.checkpoint.CheckpointPolicy.MUST_SAVE

    def contexts():
        return ag.utils.checkpoint.create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: save)

    return lambda x: grad(checkpoint(lambda z: z.exp(), x, use_reentrant=False, context_fn=contexts).sum(), x)[0]


@refused("a checkpoint draws random numbers a second time")
def checkpointed_rand():
    return lambda x: grad(checkpoint(lambda z: z * ag.rand(3), x, use_reentrant=False).sum(), x)[0]


@refused("a .grad that has a history is used")
def history_of_a_grad():
    w = ag.ones(3, requires_grad=True)
    (w * w * w).sum().backward(create_graph=True)
    return lambda x: (x * w.grad).sum()


@refused("a tensor from outside was computed from another one")
def outside_and_what_it_is_made_of():
    w = ag.ones(3, requires_grad=True)
    y = w * 2
    return lambda x: (x * y * w).sum()


@refused("the graph of one result was freed by a backward")
def one_graph_of_two_is_freed():
    def f(x):
        y, z = (x * x).sum(), (x * x * x).sum()
        y.backward()
        return y + z.detach(), z

    return f, None, lambda results: results[0].detach()


@refused("backward.. inside of the call reaches the history of an argument")
def history_of_an_argument():
    def f(x):
        (x * x).sum().backward()
        return x.detach() * 2

    return f, lambda x: x * 1


@refused("an argument gets another history, or another requires_grad")
def requires_grad_of_an_argument():
    def f(x):
        x.requires_grad_()
        return grad((x * x).sum(), x)[0]

    return f, lambda x: x.detach()


@refused("an argument shares memory with a tensor that the function knows")
def memory_of_an_argument():
    whole = ag.ones(5, 3)
    row = whole[0]
    return lambda x: x.mul_(2) + row * 1, lambda x: whole[:4]


@refused("a leaf is returned beside what is computed from it")
def leaf_beside_its_results():
    w = ag.ones(3, requires_grad=True)

    def f(x):
        return w * w * x.detach(), w

    return f, None, lambda results: grad(results[0].sum() + results[1].sum(), w)[0]


@refused("two leaves show one array")
def two_leaves_of_one_array():
    v = ag.ones(3, requires_grad=True)
    w = v.detach().requires_grad_()

    def f(x):
        return (x.detach() * v).sum() + (x.detach() * w * 2).sum()

    return f, None, lambda result: ag.stack(grad(result, (v, w)))


@refused("the backward of a result raises")
def backward_that_raises():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("no")

    return Wrong.apply


@refused("a tensor is converted to or from float8")
def float8_from_outside():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: x * w.float()


@refused("moves the codes of a float8 tensor")
def float8_codes():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: ag.cat([w, w]), None, lambda y: y.float()


@refused("a float8 tensor is used")
def float8_as_result():
    w = ag.ones(4, 3).to(ag.float8_e4m3fn)
    return lambda x: (w, x * 2), None, lambda results: results[0].float() * results[1].detach()
