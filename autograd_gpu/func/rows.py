"""Second derivatives whose rows the processes of a group share.

The diagonal and the Laplacian of some elements of x are those of a function of these elements alone. Rows of a Hessian
are, by "nested", the derivatives of the gradient by these elements; by "push" each process carries second tangents for
a part of the pairs of elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backend
from ..core.interpret.tape import Untapeable
from ..core.tensor import Tensor, wrap
from ..distributed import ProcessGroup
from ..errors import MissingRuleError
from ..ops import cat, zeros_like
from ..pytrees import TreeSpec, flatten, tree_map, unflatten
from .jacobians import jacfwd, jacrev
from .local.plan import Pair, form_of
from .local.push import mirrored, picked
from .local.run import Request, Selection, by_local_terms, points_of
from .methods import derivatives, log_nested, with_value
from .reverse import with_arguments
from .shares import Share


class Call:
    """A request and its arguments, and the share of the elements to differentiate by of this process."""

    def __init__(
        self, request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], group: ProcessGroup, result: str
    ) -> None:
        self.request, self.args, self.kwargs, self.result = request, args, kwargs, result
        self.points, self.spec = points_of(request, args)
        self.sizes = [x.numel() for x in self.points]
        self.share = Share(group, sum(self.sizes))
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        self.ranges = [(min(max(self.share.start - start, 0), size), min(max(self.share.stop - start, 0), size))
                       for start, size in zip(starts, self.sizes, strict=True)]  # of each argument, the own elements

    def own(self) -> list[Tensor]:
        """The elements of the share, of each argument that has any; none of the first one where none have."""
        parts = [x.reshape(-1)[a:b] for x, (a, b) in zip(self.points, self.ranges, strict=True) if a < b]
        return parts or [self.points[0].reshape(-1)[:0]]

    def with_own(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as one of the elements of the share, and of keyword arguments."""

        @functools.wraps(function)
        def of_own(own: list[Tensor], **kwargs: Any) -> Any:
            following = iter(own)
            values = [_replaced(x, a, b, next(following)) if a < b else x
                      for x, (a, b) in zip(self.points, self.ranges, strict=True)]
            return function(*with_arguments(self.args, self.request.argnums, unflatten(self.spec, values)), **kwargs)

        return of_own

    # ---- results -------------------------------------------------------------------------------

    def cut(self, x: Tensor, dim: int, own: bool = False) -> list[Tensor]:
        """The parts of x along `dim`, which counts elements, by argument and in its shape; if `own` those of the share.

        dim counts from the right. Own elements keep one dimension.
        """
        if own:
            return list(x.split([b - a if self.share.holds else 0 for a, b in self.ranges], dim))
        parts = x.split(self.sizes, dim) if len(self.sizes) > 1 else [x]
        behind = x.shape[dim:][1:]
        return [part.reshape((*x.shape[:dim], *like.shape, *behind))
                for part, like in zip(parts, self.points, strict=True)]

    def sum(self, x: Tensor) -> Tensor:
        """A sum over elements, or the terms of the share."""
        if self.result != "sharded":
            return self.share.summed(x)
        return x if self.share.holds else zeros_like(x)

    def vector(self, x: Tensor) -> Any:
        """The tree of a diagonal (*out.shape, elements of the share)."""
        collected = self.share.collected(x, x.ndim - 1, self.result)
        parts = self.cut(collected, -1, own=self.result == "sharded")
        return unflatten(self.spec, [part.to(x.dtype) for part, x in zip(parts, self.points, strict=True)])

    def matrix(self, x: Tensor) -> Any:
        """The tree of a Hessian (*out.shape, rows, d) of all rows or, "sharded", those of the share."""
        rows = self.cut(x, -2, own=self.result == "sharded")
        return unflatten(self.spec, [
            unflatten(self.spec, [block.to(point.dtype) for block in self.cut(row, -1)])
            for point, row in zip(self.points, rows, strict=True)
        ])


def _replaced(x: Tensor, start: int, stop: int, own: Tensor) -> Tensor:
    """x with other values of its elements `start` to `stop`."""
    flat = x.reshape(-1)
    parts = [part for part in (flat[:start], own, flat[stop:]) if part.numel()]
    return (parts[0] if len(parts) == 1 else cat(parts)).reshape(x.shape)


def by_rows(
    request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], group: ProcessGroup, result: str
) -> tuple[Any, Any]:
    """(second derivative, aux) of a request, which the processes of the group share."""
    call = Call(request, args, kwargs, group, result)
    if request.form == "hessian":
        return _hessian(call)
    computed = derivatives(request._replace(func=call.with_own(request.func), argnums=0), (call.own(),), kwargs)
    if request.form == "laplacian":
        return tree_map(call.sum, computed.second), computed.aux
    spec = flatten(computed.value)[1]
    parts, width = flatten(computed.second)[0], len(call.own())
    rows = [cat(parts[i : i + width], -1) for i in range(0, len(parts), width)]
    return unflatten(spec, [call.vector(row) for row in rows]), computed.aux


# ---- Hessians ----------------------------------------------------------------------------------


def _hessian(call: Call) -> tuple[Any, Any]:
    request = call.request
    if request.method != "nested":
        try:
            return _by_pairs(call)
        except Untapeable as reason:
            log_nested(request, reason)
    try:
        return _nested(call)
    except MissingRuleError as reason:
        raise MissingRuleError(f"{request.api}: a group shares the columns of a Hessian in forward mode, and {reason}; "
                               "leave group out") from reason


def _by_pairs(call: Call) -> tuple[Any, Any]:
    """By "push": of each pair of elements one process carries the second tangent."""
    share, d = call.share, call.share.total
    if call.result == "sharded":
        return _pairs_of_rows(call)
    own = Share(share.group, d * (d + 1) // 2)
    rows, spec, aux = _carried(call, own.count, own.largest,
                               lambda: [pair for (pair,) in form_of("hessian", d).groups[own.start : own.stop]])
    whole = [own.collected(row, row.ndim - 1, call.result) for row in rows]
    squares = [picked(row, mirrored(d), -1).reshape((*row.shape[:-1], d, d)) for row in whole]
    return unflatten(spec, [call.matrix(square) for square in squares]), aux


def _pairs_of_rows(call: Call) -> tuple[Any, Any]:
    """All pairs with an element of the share: its rows, without those of others."""
    share, d = call.share, call.share.total

    i, j = np.ogrid[share.start : share.stop, :d]

    def keys() -> np.ndarray:
        return np.minimum(i, j) * d + np.maximum(i, j)

    def number_of(count: int) -> int:
        return count * d - count * (count - 1) // 2

    rows, spec, aux = _carried(call, number_of(share.count), number_of(share.largest),
                               lambda: [divmod(key, d) for key in np.unique(keys()).tolist()])
    place = np.unique(keys(), return_inverse=True)[1].reshape(-1)
    order = wrap(backend.to_device(place, call.points[0].device))
    squares = [row.index_select(row.ndim - 1, order).reshape((*row.shape[:-1], share.count, d)) for row in rows]
    collected = [share.collected(square, square.ndim - 2, call.result) for square in squares]
    return unflatten(spec, [call.matrix(square) for square in collected]), aux


def _carried(
    call: Call, count: int, most: int, pairs: Callable[[], Sequence[Pair]]
) -> tuple[list[Tensor], TreeSpec, Any]:
    """The second derivatives by `count` pairs, of each output along the last dimension; at most `most` on a process."""
    few = (1 + call.share.total + most) / (1 + call.share.largest) - 1  # products by "nested" are (1 + columns) (1 + o)
    request = call.request._replace(selection=Selection(count, pairs, few))
    found = by_local_terms(request, call.args, call.kwargs)
    rows, spec = flatten(found.second)
    return rows, spec, found.aux


def _nested(call: Call) -> tuple[Any, Any]:
    """The derivatives of the gradient by the elements of the share, in forward mode."""
    request, share = call.request, call.share
    inner = jacrev(with_value(request), request.argnums, has_aux=True)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    whole, (value, *aux) = jacfwd(call.with_own(gradient), 0, has_aux=True)(call.own(), **call.kwargs)
    outs, spec = flatten(value)
    blocks, width = flatten(whole)[0], len(call.own())
    columns = [cat(blocks[i : i + width], -1) for i in range(0, len(blocks), width)]
    squares, count = [], len(call.points)
    for k, out in enumerate(outs):
        own = columns[k * count : (k + 1) * count]
        rows = [c.reshape((*out.shape, x.numel(), share.count)) for c, x in zip(own, call.points, strict=True)]
        square = cat(rows, -2)
        collected = share.collected(square, square.ndim - 1, call.result)
        squares.append(collected.mT if call.result == "sharded" else collected)
    return unflatten(spec, [call.matrix(square) for square in squares]), aux[0] if aux else None
