"""Order: sort, argsort, topk, and where something is not zero."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import defop
from ..core.tensor import Tensor
from .join import unbind
from .shape import reshape
from .slicing import from_right, key_along, wrap_dim


def _order(xp, x, dim, descending):
    """The stable order along `dim`; NaN counts as the largest."""
    wrap_dim(dim, x.ndim)
    if not x.ndim:
        return xp.zeros((), "int64")
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    # backwards from a backwards array: ascending, then turned round, keeps the order of equals
    turn = key_along(from_right(dim, x.ndim), slice(None, None, -1))
    return x.shape[dim] - 1 - xp.argsort(x[turn], axis=dim, kind="stable")[turn]


def _take(xp, x, indices, dim):
    return xp.take_along_axis(x, indices, dim) if x.ndim else xp.array(x)


def _sort(xp, x, *, dim=-1, descending=False, stable=True):
    indices = _order(xp, x, dim, descending)
    return _take(xp, x, indices, dim), indices


def _topk(xp, x, *, k, dim=-1, largest=True, sorted=True):
    at = wrap_dim(dim, x.ndim)
    if not 0 <= k <= (x.shape[at] if x.ndim else 1):
        raise RuntimeError("selected index k out of range")
    indices = _order(xp, x, dim, largest)
    indices = indices[key_along(from_right(dim, x.ndim), slice(k))] if x.ndim else indices
    return _take(xp, x, indices, dim), indices


def _values_back(F, g, x_shape, indices, dim):
    if not x_shape:
        return g[0]
    return F.gather_along_backward(g[0], indices, from_right(dim, len(x_shape)), x_shape)


@defop
class sort:
    """(values, indices): x in order along `dim`, equals in their original order, and where each value came from.

    >>> ag.sort(ag.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """

    forward = _sort
    grad_x = _values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)


@defop
class topk:
    """(values, indices): the k largest (or smallest) elements along `dim` in order, and where each came from.

    >>> ag.topk(ag.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """

    forward = _topk
    grad_x = _values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)


@defop
class argsort:
    """The indices that put x in order along `dim`; equals stay in their order.

    >>> ag.argsort(ag.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """

    def forward(xp, x, *, dim=-1, descending=False, stable=True): return _order(xp, x, dim, descending)


@defop
class argwhere:
    """The indices of the elements that are not zero, one per row.

    >>> from autograd_gpu.ops.sorting import argwhere
    >>> argwhere(ag.tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor([[0, 0],
            [1, 1]])
    """

    def forward(xp, x): return xp.argwhere(x)


def nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: one per row, or with `as_tuple` one vector per dimension.

    >>> ag.nonzero(ag.tensor([0.0, 3.0, 0.0, 4.0]))
    tensor([[1],
            [3]])
    """
    return unbind(argwhere(x if x.ndim else reshape(x, (1,))), 1) if as_tuple else argwhere(x)
