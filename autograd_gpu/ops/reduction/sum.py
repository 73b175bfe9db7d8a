"""Sums, means and counts over dimensions. Half types are accumulated in float32."""

from __future__ import annotations

import math

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import LINEAR, REDUCING, defop
from .dimensions import added, axes, count, divided, reduced, spread


def _sum_of_halves(x, dims, keepdim):
    """By a kernel that sums in float32 and rounds, over the last dimensions or over the first; else None.

    CuPy takes three launches, two of them over arrays of x's size.
    """
    last, first = len(dims) == -dims[-1], len(dims) == dims[0] + x.ndim + 1  # dims are negative, the rightmost first
    if not (last or first):
        return None
    summed = math.prod([x.shape[d] for d in dims])
    shape = tuple([1 if d - x.ndim in dims else size for d, size in enumerate(x.shape)])
    x = kernels.contiguous(x)
    kept = math.prod(shape)
    out = kernels.row_sum(x.reshape(kept, summed)) if last else kernels.column_sum(x.reshape(summed, kept))
    return out.reshape(shape if keepdim else [n for d, n in enumerate(shape) if d - x.ndim not in dims])


def _sum(xp, x, *, dim=None, keepdim=False, dtype=None):
    if dtype is None and x.dtype in dtypes.FULL_FLOATS:
        return added(xp, x, dim, keepdim)
    wanted = x.dtype if dtype is None else dtypes.computing(dtype)
    if dtype is None and wanted not in dtypes.FLOATS:
        return reduced(xp, "add", x, dim, keepdim, dtypes.int64)
    if xp is not np and wanted is x.dtype and x.ndim:
        found = _sum_of_halves(x, axes(dim, x.ndim), keepdim)
        if found is not None:
            return found
    return _added_in(xp, wanted, x, dim, keepdim)


def _added_in(xp, wanted, x, dim, keepdim):
    """The sum in the dtype `wanted`, of half types and numbers that are no floats rounded once."""
    wider = wide(wanted)
    if wider not in dtypes.FULL_FLOATS:
        return reduced(xp, "add", x.astype(wider, copy=False), dim, keepdim)
    return added(xp, x.astype(wider, copy=False), dim, keepdim).astype(wanted, copy=False)


def _sum_back(F, g, x_shape, x_dtype, dim, keepdim, dtype):
    return spread(F, g if dtype is None else F.cast(g, x_dtype), x_shape, dim, keepdim)


def _stays_float(dim, keepdim, dtype):
    return dtype is None or dtypes.as_dtype(dtype) in dtypes.FLOATS


@defop
class sum:
    """The sum over `dim` (an int, a tuple, or None for all); integers and bools sum to int64.

    >>> ag.sum(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([4., 6.])
    """

    forward = _sum
    grad_x = _sum_back
    differentiable = _stays_float
    jvp, batch = LINEAR, REDUCING
    public = methods = True


def _mean(xp, x, *, dim=None, keepdim=False, dtype=None):
    if dtype is None and x.dtype in dtypes.FULL_FLOATS:
        return divided(added(xp, x, dim, keepdim), count(x.shape, dim))
    wanted = x.dtype if dtype is None else dtypes.computing(dtype)
    if wanted not in dtypes.FLOATS:
        raise RuntimeError("mean(): could not infer output dtype. Input dtype must be a floating point dtype. "
                           f"Got: {wanted}; convert with .float() first")
    x = x.astype(wide(wanted), copy=False)
    return divided(added(xp, x, dim, keepdim), count(x.shape, dim)).astype(wanted, copy=False)


def _mean_back(F, g, x_shape, x_dtype, dim, keepdim, dtype):
    g = g if dtype is None else F.cast(g, x_dtype)
    return spread(F, g / (count(x_shape, dim) or 1), x_shape, dim, keepdim)


@defop
class mean:
    """The mean over `dim` (an int, a tuple, or None for all) of a floating-point tensor.

    >>> ag.mean(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5, 3.5])
    """

    forward = _mean
    grad_x = _mean_back
    jvp, batch = LINEAR, REDUCING
    public = methods = True


def _count_nonzero(xp, x, *, dim=None):
    if xp is np and dim is None:
        return np.asarray(np.count_nonzero(x))
    return reduced(xp, "add", (x != 0).astype(dtypes.int64), dim, False)


@defop
class count_nonzero:
    """How many elements over `dim` (an int, a tuple, or None for all) are not zero, as int64.

    >>> ag.count_nonzero(ag.tensor([[0.0, 1.0], [2.0, 3.0]]), 0)
    tensor([1, 2])
    """

    forward = _count_nonzero
    batch = REDUCING
    takes_out = False
    public = methods = True
