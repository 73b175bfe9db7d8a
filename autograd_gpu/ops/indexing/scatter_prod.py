"""Products along one dimension at an index tensor of the same rank, for scatter_reduce and index_reduce."""

from __future__ import annotations

import math

import numpy as np

from ...backend.arrays.flat_index import flat_indices, grid
from ...core.extend import LEADING, LOOP, RAW, SAME, Tensor, defop, is_batched


def _runs(F, values, places):
    """The products of the runs of equal places up to each element, by those of 1, 2, 4, ... elements."""
    step = 1
    while step < places.shape[0]:
        joined = places[step:] == places[:-step]
        if not (isinstance(joined, Tensor) and is_batched(joined)) and not joined.any():
            break
        before = F.where(joined, values[:-step], F.constant_like(values[:-step], 1.0))
        values = F.cat([values[:step], values[step:] * before])
        step *= 2
    return values


def _scatter_prod(xp, x, index, src, *, dim):
    out = np.array(x, order="C")
    if src.size:
        np.multiply.at(out.reshape(-1), flat_indices(out.shape, 0, grid(np, index, dim)), src.ravel())
    return out


def _scatter_prod_cuda(xp, x, index, src, *, dim):
    out = xp.array(x, order="C")
    if not src.size:
        return out
    places, order, _ = _scatter_order(xp, index, shape=x.shape, dim=dim)
    last = xp.concatenate([places[1:] != places[:-1], xp.ones(1, bool)])
    out.reshape(-1)[places[last]] *= _runs(RAW, src.ravel()[order], places)[last]
    return out


def _scatter_order(xp, index, *, shape, dim):
    places = xp.arange(math.prod(shape)).reshape(shape)[grid(xp, index, dim)].reshape(-1)
    order = xp.argsort(places)
    return places[order], order, xp.argsort(order)


@defop
class scatter_order:
    """(places, order, back): the flat indices into a tensor of `shape` of what scatter writes to, the order that sorts
    them, and the one that restores them.

    >>> from autograd_gpu.ops.indexing.scatter_prod import scatter_order
    >>> scatter_order(ag.tensor([2, 0]), (3,), -1).order
    tensor([1, 0])
    """

    forward = _scatter_order
    outputs, nondiff = ("places", "order", "back"), True
    batch = LOOP


def _of_others(F, x, index, src, dim):
    """For each element of src the product of all others with the same index, without division: right for zeros."""
    places, order, back = F.scatter_order(index, x.shape, dim)
    values = F.advanced_index(F.reshape(src, (-1,)), order, dims=(-1,))
    joined = places[1:] == places[:-1]
    end = F.constant_like(values[:1], 1.0)
    left = F.cat([end, F.where(joined, values[:-1], 1.0)])
    right = F.flip(F.cat([F.where(joined, values[1:], 1.0), end]), (-1,))
    both = _runs(F, left, places) * F.flip(_runs(F, right, F.flip(places, (-1,))), (-1,))
    return F.reshape(F.advanced_index(both, back, dims=(-1,)), src.shape)


def _slopes(F, x, index, src, dim):
    """The derivatives of the result by x, and at `index` by src."""
    factors = F.scatter_prod(F.constant_like(x, 1.0), index, src, dim)
    return factors, F.gather_along(x, index, dim) * _of_others(F, x, index, src, dim)


def _prod_back(F, g, need, x, index, src, dim):
    by_x, by_src = _slopes(F, x, index, src, dim)
    return g * by_x, None, F.gather_along(g, index, dim) * by_src if need[2] else None


def _prod_jvp(F, t, x, index, src, dim):
    x_t, _, src_t = t
    by_x, by_src = _slopes(F, x, index, src, dim)
    out = F.constant_like(x, 0.0) if x_t is None else x_t * by_x
    return out if src_t is None else F.scatter_sum(out, index, src_t * by_src, dim)


@defop
class scatter_prod:
    """x times all src[i][j] at [i][index[i][j]] for dim = -1, and so on.

    >>> from autograd_gpu.ops.indexing.scatter_prod import scatter_prod
    >>> scatter_prod(ag.ones(3), ag.tensor([1, 1]), ag.tensor([2.0, 3.0]), -1)
    tensor([1., 6., 1.])
    """

    no_capture = "host"
    forward, cuda = _scatter_prod, _scatter_prod_cuda
    grads = _prod_back
    nondiff, promoted, types = ("index",), ("x", "src"), SAME
    jvp, batch = _prod_jvp, LEADING
