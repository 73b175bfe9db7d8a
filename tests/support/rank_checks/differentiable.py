"""Differentiable collectives: values, first and second derivatives against one process that has all the tensors.

Each check writes a loss per rank as a function of the tensors of all ranks, in one process with plain operations and
on the ranks with collectives. The gradient on a rank is that of the sum of the losses with respect to its tensor.
"""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu.distributed import ReduceOp
from autograd_gpu.distributed.nn import functional as F

RANK, SIZE = dist.get_rank(), dist.get_world_size()


def inputs(shape):
    rng = np.random.default_rng(5)
    return [ag.tensor(rng.uniform(0.5, 1.5, shape), requires_grad=True) for _ in range(SIZE)]


def weights(shape, of):
    return ag.tensor(np.random.default_rng([7, of]).uniform(0.5, 1.5, shape))


def loss_of(result, rank):
    """A loss with second derivatives, another one on each rank."""
    results = result if isinstance(result, tuple) else (result,)
    return sum(((one * weights(one.shape, rank + 3 * i)) ** 3).sum() for i, one in enumerate(results))


def agrees(on_ranks, in_one, shape):
    """Compares on_ranks(x) of each rank's x with in_one(all x), which returns the results of all ranks."""
    xs = inputs(shape)
    results = in_one(xs)
    total = sum(loss_of(result, rank) for rank, result in enumerate(results))
    gs = ag.autograd.grad(total, xs, create_graph=True, materialize_grads=True)
    seconds = ag.autograd.grad(sum((g * g).sum() for g in gs), xs, materialize_grads=True)
    x = inputs(shape)[RANK]
    result = on_ranks(x)
    both = zip(*((a if isinstance(a, tuple) else (a,)) for a in (result, results[RANK])), strict=True)
    for mine, expected in both:
        np.testing.assert_allclose(mine.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    (g,) = ag.autograd.grad(loss_of(result, RANK), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), gs[RANK].detach().numpy(), rtol=1e-12)
    (second,) = ag.autograd.grad((g * g).sum(), x)
    np.testing.assert_allclose(second.numpy(), seconds[RANK].numpy(), rtol=1e-12)


def check_all_reduce():
    reductions = {
        ReduceOp.SUM: lambda x: x.sum(0), ReduceOp.AVG: lambda x: x.mean(0), ReduceOp.MAX: lambda x: x.amax(0),
        ReduceOp.MIN: lambda x: x.amin(0), ReduceOp.PRODUCT: lambda x: x.prod(0),
    }  # fmt: skip
    for op, reduction in reductions.items():
        agrees(lambda x, op=op: F.all_reduce(x * x, op),
               lambda xs, of=reduction: [of(ag.stack([x * x for x in xs]))] * SIZE, (3, 2))  # fmt: skip
        agrees(lambda x, op=op: F.reduce(x * x, 1, op),
               lambda xs, of=reduction: [
                   of(ag.stack([x * x for x in xs])) if r == 1 else ag.zeros(3, dtype=ag.float64) for r in range(SIZE)
               ], (3,))  # fmt: skip
        agrees(lambda x, op=op: F.reduce_scatter(x[0], list(x * x), op),
               lambda xs, of=reduction: list(of(ag.stack([x * x for x in xs]))), (SIZE, 2))  # fmt: skip
        agrees(lambda x, op=op: F.reduce_scatter_tensor(x * x, op),
               lambda xs, of=reduction: list(of(ag.stack([x * x for x in xs])).split(2)), (2 * SIZE, 3))  # fmt: skip
    with pytest.raises(TypeError, match="no derivative"):
        F.all_reduce(ag.ones(2, dtype=ag.int64), ReduceOp.BOR)


def check_copies():
    agrees(lambda x: F.all_gather(x * x), lambda xs: [tuple(x * x for x in xs)] * SIZE, (2, 3))
    agrees(F.all_gather_into_tensor, lambda xs: [ag.cat(xs)] * SIZE, (2, 3))
    agrees(lambda x: F.broadcast(x * x, 1), lambda xs: [xs[1] * xs[1]] * SIZE, (3,))
    nothing = tuple(ag.zeros(3, dtype=ag.float64) for _ in range(SIZE))
    agrees(lambda x: F.gather(x * x, 1),
           lambda xs: [tuple(x * x for x in xs) if r == 1 else nothing for r in range(SIZE)], (3,))  # fmt: skip
    agrees(lambda x: F.scatter(list(x * x), 1), lambda xs: list(xs[1] * xs[1]), (SIZE, 2))
    agrees(lambda x: F.all_to_all_single(x, x * x),
           lambda xs: [ag.stack([x[r] * x[r] for x in xs]) for r in range(SIZE)], (SIZE, 2))  # fmt: skip
    agrees(lambda x: F.all_to_all(list(x), list(x * x)),
           lambda xs: [tuple(x[r] * x[r] for x in xs) for r in range(SIZE)], (SIZE, 2))  # fmt: skip


def check_transforms():
    """Forward mode, vmap and the Hessian of a loss that is a sum over the ranks."""
    data = [np.random.default_rng(rank).normal(size=(3, 2)) for rank in range(SIZE)]
    theta = ag.tensor([0.3, -0.4], dtype=ag.float64)

    def whole(theta):
        return (ag.tensor(np.concatenate(data)) @ theta).sin().square().sum()

    def mine(theta):
        return F.all_reduce((ag.tensor(data[RANK]) @ theta).sin().square().sum())

    def both(transform):
        for actual, expected in zip(transform(mine), transform(whole), strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-12)

    direction = ag.tensor([1.0, 2.0], dtype=ag.float64)
    both(lambda f: ag.func.jvp(f, (theta,), (direction,)))
    both(lambda f: [ag.func.vmap(f)(ag.stack([theta, 2 * theta, direction]))])
    both(lambda f: [ag.func.jacfwd(f)(theta)])
    with pytest.raises(RuntimeError, match="function transform"):
        ag.func.vmap(dist.all_reduce)(ag.ones(2, 3))
    everywhere = ag.func.vmap(lambda x: F.all_gather_into_tensor(x * RANK), in_dims=1)(ag.ones(2, 3))
    np.testing.assert_array_equal(everywhere.numpy(), np.tile(np.repeat(np.arange(SIZE), 2), (3, 1)))
