"""Binary search in sorted sequences."""

from __future__ import annotations

import math
from typing import Any

from ... import backend
from ...backend.arrays import dtypes
from ...core.extend import PROMOTE, Tensor, defop, expanded, public, rank
from ..creation.from_data import as_tensor
from ..indexing.gather import gather


def _binary_search(xp, rows, values, right):
    """Binary search in one sequence per row, for all values at once."""
    n = rows.shape[-1]
    low = xp.zeros(values.shape, dtypes.int64)
    high = xp.full(values.shape, n, dtypes.int64)
    for _ in range(n.bit_length()):
        middle = xp.minimum((low + high) // 2, n - 1)
        pivots = xp.take_along_axis(rows, middle, -1)
        below = (pivots <= values) if right else (pivots < values)
        below |= xp.isnan(values) if values.dtype in dtypes.FLOATS else False
        below &= low < high
        low, high = backend.where(xp, below, middle + 1, low), backend.where(xp, below, high, middle)
    return low


def _places(xp, rows, values, *, right, out_int32):
    if rows.ndim == 1:
        places = xp.searchsorted(rows, values.reshape(-1), side="right" if right else "left").reshape(values.shape)
    else:
        places = _binary_search(xp, rows, values, right)
    return xp.asarray(places).astype(dtypes.int32 if out_int32 else dtypes.int64, copy=False)


def _places_batch(F, n, batched, rows, values, *, right, out_int32):
    if not batched[0] and rank(rows, False) == 1:
        return F.sorted_places(rows, values, right, out_int32)
    vectors = rank(rows, batched[0]) == 1
    rows, values = expanded(F, n, batched, (rows, values))
    if not vectors:
        return F.sorted_places(rows, values, right, out_int32)
    places = F.sorted_places(rows, F.reshape(values, (n, math.prod(values.shape[1:]))), right, out_int32)
    return F.reshape(places, values.shape)


@defop
class sorted_places:
    """The insertion index of each value into `rows`, sorted along the last dimension; with `right` after equal ones.

    >>> ag.searchsorted(ag.tensor([1.0, 3.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([1, 2])
    """

    forward = _places
    nondiff = True
    types, batch = PROMOTE, _places_batch


@public(out=True)
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The indices at which to insert the elements of input, a tensor or a number, into `sorted_sequence`.

    In a vector it searches for all elements; otherwise in each row along the last dimension for the elements of the
    same row of input. The index is before equal elements, or with right=True or side="right" after them. `sorter` is
    the argsort of an unsorted sequence.

    >>> ag.searchsorted(ag.tensor([1.0, 3.0, 5.0]), ag.tensor([3.0, 4.0]), right=True)
    tensor([2, 2])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                           "right was True")
    if not sorted_sequence.ndim:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
                           "dimension")
    queries = input if isinstance(input, Tensor) else as_tensor(input, device=sorted_sequence.device)
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != queries.shape[:-1]:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
                           "of boundaries tensor and input value tensor must match, but we got boundaries tensor "
                           f"{list(sorted_sequence.shape)} and input value tensor {list(queries.shape)}")
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError("torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
                               f"tensor {list(sorted_sequence.shape)} and got sorter tensor {list(sorter.shape)}")
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    return sorted_places(sorted_sequence, queries, right=right or side == "right", out_int32=out_int32)


@public(out=True)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """For each element of input, a tensor or a number, the i with boundaries[i - 1] < input <= boundaries[i].

    With `right` the i with boundaries[i - 1] <= input < boundaries[i]. `boundaries` is a sorted vector.

    >>> ag.bucketize(ag.tensor([0.5, 3.0, 9.0]), ag.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
