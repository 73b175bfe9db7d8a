"""The coordinates of flat indices."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.arrays.dtypes import INTEGERS
from ...core.extend import RECORD, Tensor, public


@public()
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of flat indices into a tensor of `shape`.

    >>> ag.unravel_index(ag.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype not in INTEGERS:
        raise TypeError(f"unravel_index() expects indices of integers, not of {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    left, coords = indices, []
    for n in reversed(sizes):
        coords.append(RECORD.remainder(left, max(n, 1)))
        left = RECORD.floor_divide(left, max(n, 1))
    return tuple(reversed(coords))
