"""Places in arrays: numbers of elements, index grids, and sums at named places."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ...backend.arrays.dtypes import HALF, INTEGERS, bool_, float32, int32, int64, uint32, uint64
from ...backend.cpu import pool
from ...core.extend import Tensor, public, wrap
from .basic_index import FULL

FEW = 64  # elements up to which it does not pay to number them
_ATOMIC = {int64: uint64, uint64: uint64, uint32: uint32}  # what CuPy sums integers of a dtype in; the others in int32


# ---- numbers of elements, for NumPy arrays -------------------------------------------------------------


def in_range(index, size, dim):
    """`index` as int64 numbers in [0, size), negative ones counted from the end; IndexError beyond."""
    unsigned = index if index.dtype.kind == "u" else index.view(f"u{index.itemsize}")  # negative ones become huge
    if index.size and np.maximum.reduce(unsigned, axis=None) >= size:
        wrong = index[(index < -size) | (index >= size)] if index.dtype.kind == "i" else index[index >= size]
        if wrong.size:
            raise IndexError(f"index {wrong.flat[0]} is out of bounds for dimension {dim} with size {size}")
        index = np.where(index < 0, index + size, index)
    return index.astype(int64, copy=False)


def element_numbers(shape, start, indices):
    """The numbers, in a flat array, of the elements that integer arrays name from dimension `start` on; a vector."""
    stop = start + len(indices)
    numbers = in_range(indices[0], shape[start], start)
    for dim, index in enumerate(indices[1:], start + 1):
        numbers = _combined(numbers, shape[dim], in_range(index, shape[dim], dim))
    lead, count, width = (math.prod(sizes) for sizes in (shape[:start], shape[start:stop], shape[stop:]))
    numbers = numbers.reshape(1, -1, 1)  # (lead, n, width) -> lead * n * width of them
    if lead != 1:
        numbers = _combined((np.arange(lead)).reshape(-1, 1, 1), count, numbers)
    if width != 1:
        numbers = _combined(numbers, width, np.arange(width))
    return numbers.reshape(-1)


def _combined(a, n, b):
    """a * n + b in reused memory."""
    a = np.multiply(a, n, out=pool.empty(a.shape, int64))
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.add(a, b, out=a if a.shape == shape else pool.empty(shape, int64))


# ---- a grid along one dimension ------------------------------------------------------------------------


def grid(xp, index, dim):
    """One index array per dimension: `index` itself in `dim` < 0, elsewhere 0, 1, ..., shaped to broadcast."""
    ndim, count = index.ndim, _counted if xp is np and index.size < FEW else _count
    return tuple([
        index if d == ndim + dim else count(xp, size, ndim - 1 - d) for d, size in enumerate(index.shape)
    ])


def _count(xp, size, trailing):
    return xp.arange(size).reshape((size,) + (1,) * trailing)


_counted = functools.lru_cache(maxsize=256)(_count)


def picked(xp, x, index, dim):
    """x[i][index[i][j]] for dim = -1, and so on; three times as fast by numbers of elements if there are many."""
    if xp is not np or index.size < FEW:
        return x[grid(xp, index, dim)]
    numbers, out = element_numbers(x.shape, 0, grid(xp, index, dim)), pool.empty(index.shape, x.dtype)
    np.take(x.reshape(-1), numbers, out=out.reshape(-1), mode="wrap")  # in range already; "raise" would copy out
    return out


# ---- sums ----------------------------------------------------------------------------------------------


def sums_at(xp, out, dim, indices, g):
    """`out`, a fresh array, plus g at [..., i0, i1, ...], the integer arrays from dimension `dim` < 0 on; what is named
    twice gets both. Half types are summed in float32.

    On NumPy by numbers of elements: numpy.add.at is then 5 to 20 times as fast. CuPy has atomic sums of some dtypes
    only; those of uint64 are those of int64.
    """
    if not g.size:
        return out
    kept = out.dtype
    if xp is np and g.size < FEW and kept not in HALF:
        try:
            np.add.at(out, (..., *indices, *[FULL] * (-dim - len(indices))), g)
        except IndexError:
            element_numbers(out.shape, out.ndim + dim, indices)  # says which one
            raise
        return out
    wide = float32 if kept in HALF else kept
    if xp is not np and kept in INTEGERS | {bool_}:
        wide = _ATOMIC.get(kept, int32)
    out, g = out.astype(wide, copy=False), g.astype(wide, copy=False)
    if xp is np:
        flat = out.reshape(-1)  # contiguous, so a view
        np.add.at(flat, element_numbers(out.shape, out.ndim + dim, indices), g.ravel())
    else:
        xp.add.at(out, (..., *indices, *[FULL] * (-dim - len(indices))), g)
    return out.astype(kept, copy=False)


@public()
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of the elements of a tensor of `shape` with these numbers.

    >>> ag.unravel_index(ag.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype not in INTEGERS:
        raise TypeError(f"unravel_index() expects indices of integers, not of {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    left, found = indices._array, []
    for n in reversed(sizes):
        found.append(wrap(left % max(n, 1)))
        left = left // max(n, 1)
    return tuple(reversed(found))
