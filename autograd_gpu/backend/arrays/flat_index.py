"""Flat indices, index grids, and sums at given indices."""

from __future__ import annotations

import functools
import math

import numpy as np

from ... import deterministic
from .. import kernels
from ..cpu import numpy_ops, pool
from .dtypes import FLOATS, HALF, INTEGERS, bool_, float32, int32, int64, uint32, uint64

FULL = slice(None)
FEW = 64  # up to so many elements, computing flat indices takes longer than it saves
WIDE, ROUNDS = 64, 16  # columns from which rows are added as wholes, while no index comes more often than that
_ATOMIC = {int64: uint64, uint64: uint64, uint32: uint32}  # the dtype in which CuPy adds integers; the others: int32


# ---- flat indices of NumPy arrays ----------------------------------------------------------------------


def in_range(index, size, dim):
    """`index` as int64 in [0, size), negative ones counted from the end; IndexError if out of range."""
    unsigned = index if index.dtype.kind == "u" else index.view(f"u{index.itemsize}")  # negative ones become huge
    if index.size and numpy_ops.max_reduce(unsigned, axis=None) >= size:
        wrong = index[(index < -size) | (index >= size)] if index.dtype.kind == "i" else index[index >= size]
        if wrong.size:
            raise IndexError(f"index {wrong.flat[0]} is out of bounds for dimension {dim} with size {size}")
        index = np.where(index < 0, index + size, index)
    return index.astype(int64, copy=False)


def flat_indices(shape, start, indices):
    """The flat indices of the elements at the integer arrays `indices`, from dimension `start` on, as a vector."""
    stop = start + len(indices)
    flat = in_range(indices[0], shape[start], start)
    for dim, index in enumerate(indices[1:], start + 1):
        flat = _multiply_add(flat, shape[dim], in_range(index, shape[dim], dim))
    lead, count, width = (math.prod(sizes) for sizes in (shape[:start], shape[start:stop], shape[stop:]))
    flat = flat.reshape(1, -1, 1)  # (lead, n, width) -> a vector
    if lead != 1:
        flat = _multiply_add((np.arange(lead)).reshape(-1, 1, 1), count, flat)
    if width != 1:
        flat = _multiply_add(flat, width, np.arange(width))
    return flat.reshape(-1)


def _multiply_add(a, n, b):
    """a * n + b, written into `a` if possible."""
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
    """x[i][index[i][j]] for dim = -1, and so on; for many elements by flat indices, which is three times as fast.

    CuPy launches a kernel for each dimension and several more; ours is one, unless `index` is smaller elsewhere.
    """
    if xp is not np and kernels.suits_gather(x, index, dim):
        return kernels.gather(kernels.contiguous(x), kernels.contiguous(index), dim)
    if xp is not np or index.size < FEW:
        return x[grid(xp, index, dim)]
    flat, out = flat_indices(x.shape, 0, grid(xp, index, dim)), pool.empty(index.shape, x.dtype)
    # the indices are in range; mode "raise" would copy `out`
    np.take(x.reshape(-1), flat, out=out.reshape(-1), mode="wrap")
    return out


# ---- sums ----------------------------------------------------------------------------------------------


def add_at(xp, out, dim, indices, g, op):
    """`out`, a new array, plus g at [..., i0, i1, ...]; the integer arrays index from dimension `dim` < 0 on.

    Repeated indices accumulate, half types in float32. NumPy arrays are flattened, which makes numpy.add.at 5 to 20
    times as fast. CuPy adds atomically in some dtypes only; int64 is added as uint64. `op` is the operation's name for
    users who want deterministic ones only.
    """
    if not g.size:
        return out
    dtype = out.dtype
    if xp is np and g.size < FEW and dtype not in HALF:
        try:
            np.add.at(out, (..., *indices, *[FULL] * (-dim - len(indices))), g)
        except IndexError:
            flat_indices(out.shape, out.ndim + dim, indices)  # the error names the index
            raise
        return out
    wide = float32 if dtype in HALF else dtype
    if xp is not np and dtype in INTEGERS | {bool_}:
        wide = _ATOMIC.get(dtype, int32)
    out, g = out.astype(wide, copy=False), g.astype(wide, copy=False)
    if xp is np:
        flat = out.reshape(-1)  # contiguous, so a view
        width = out.shape[-1]
        if -dim == out.ndim == 2 and len(indices) == 1 and width >= WIDE and g.shape == (indices[0].size, width):
            return _add_rows(out, in_range(indices[0], len(out), 0).reshape(-1), g).astype(dtype, copy=False)
        np.add.at(flat, flat_indices(out.shape, out.ndim + dim, indices), g.ravel())
    else:
        if wide in FLOATS:
            deterministic.alert(op)
        xp.add.at(out, (..., *indices, *[FULL] * (-dim - len(indices))), g)
    return out.astype(dtype, copy=False)


def _add_rows(out, index, g):
    """`out` plus the rows of g at `index`, first those that come first in their row of `out`, then the second, ...

    So rows are added as wholes; where an index comes often, all elements one by one.
    """
    order = np.argsort(index, kind="stable")
    ascending = index[order]
    new = np.concatenate([[True], ascending[1:] != ascending[:-1]])
    starts = np.flatnonzero(new)
    rank = np.arange(len(index)) - np.repeat(starts, np.diff(starts, append=len(index)))
    if rank.max() > ROUNDS:
        np.add.at(out.reshape(-1), flat_indices(out.shape, 0, (index,)), g.reshape(-1))
        return out
    for number in range(rank.max() + 1):
        rows = order[rank == number]
        out[index[rows]] += g[rows]
    return out
