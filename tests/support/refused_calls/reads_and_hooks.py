"""Calls that read values, whose sizes depend on values, that draw again, and that have hooks."""

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd import Function, grad
from autograd_gpu.utils.checkpoint import checkpoint

from .common import refused


@refused("the values of a tensor are read")
def item():
    return lambda x: x * x.sum().item()


@refused("the values of a tensor are read")
def branch():
    return lambda x: x * 2 if float(x.sum()) > 0 else x - 1


@refused("the values of a tensor are read")
def array():
    return lambda x: ag.as_tensor(x.array**2) + x


@refused("the values of a tensor are read")
def values_of_a_written_constant():
    def f(x):
        z = ag.zeros(3)
        z.add_(x[0])
        return x * 2 if bool((z > 0).all()) else x - 1

    return lambda x: f(x.detach())


@refused("the values of a tensor are read")
def values_at_places():
    return lambda x: x.masked_scatter(x > 0, ag.arange(12.0))


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


@refused("the data of a tensor is replaced")
def data_of_a_parameter():
    w = nn.Parameter(ag.ones(3))

    def f(x):
        w.data = x[0].detach() * 2
        return x.detach() * w.detach()

    return f


@refused(r"storage_offset.. of a tensor is asked for")
def place_in_memory():
    rows = iter(range(100))

    def given(x):
        return ag.ones(100, 3)[(i := next(rows)) : i + 4]

    return lambda x: x * x.storage_offset(), given, None


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
        y = checkpoint(lambda z: drop(z).exp(), x, use_reentrant=False)
        return grad(y.sum(), x)[0]

    return f


@refused("a hook on a tensor or a node of the graph runs")
def tensor_hook():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return grad(y.sum(), x)[0]

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
