"""Sums and means of the elements that are not NaN."""

from __future__ import annotations

import math
from functools import partial

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import REDUCING, defop
from .dimensions import expand_grad, float_sum, floating, negative_axes, statistic_of_rows, ufunc_reduce
from .sum import sum


def _nan_to_zero(xp, x):
    """x with NaN replaced by 0."""
    unknown = xp.isnan(x)
    if backend.seen_none(unknown):
        return x
    return backend.where(xp, unknown, 0.0, x).astype(x.dtype, copy=False)


def _nansum(sum_of, xp, x, *, dim=None, keepdim=False, dtype=None):
    x = _nan_to_zero(xp, x) if x.dtype in dtypes.FLOATS else x
    return sum_of(xp, x, dim=dim, keepdim=keepdim, dtype=dtype)


def _nansum_back(F, g, x, x_dtype, dim, keepdim, dtype):
    g = g if dtype is None else F.cast(g, x_dtype)
    return F.where(F.isnan(x), 0.0, expand_grad(F, g, x.shape, dim, keepdim))


def _nansum_jvp(F, t, x, dim, keepdim, dtype):
    return F.sum(F.where(F.isnan(x), 0.0, t), negative_axes(dim, x.ndim), keepdim, dtype)


@defop
class nansum:
    """The sum over `dim` (an int, a tuple, or None for all) ignoring NaN; integers and bools sum to int64.

    >>> ag.nansum(ag.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """

    forward = partial(_nansum, sum.op.forward)
    cuda = statistic_of_rows("nansum", partial(_nansum, sum.op.cuda))
    grad_x = _nansum_back
    def differentiable(dim, keepdim, dtype): return floating(dtype)
    jvp, batch = _nansum_jvp, REDUCING
    public = methods = True


def _nanmean(xp, x, *, dim=None, keepdim=False, dtype=None):
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"nanmean(): expected input to have floating point dtype but got {x.dtype}; "
                           "convert with .float() first")
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    if out_dtype not in dtypes.FLOATS:
        raise RuntimeError("nanmean(): could not infer output dtype. Optional dtype must be a floating point dtype. "
                           f"Got: {out_dtype}; convert the mean with .to({out_dtype})")
    total = float_sum(xp, _nan_to_zero(xp, x).astype(wide(out_dtype), copy=False), dim, keepdim)
    count = ufunc_reduce(xp, "add", x == x, dim, keepdim, dtypes.int64).astype(total.dtype)
    count = backend.where(xp, count == 0, math.nan, count).astype(total.dtype, copy=False)
    return (total / count).astype(out_dtype, copy=False), {"count": count}


def _divisor(F, count):
    """The number of elements that are not NaN, but 1 for none, where the derivative is 0."""
    return F.where(F.isnan(count), 1.0, count)


def _nanmean_back(F, g, x, x_dtype, count, dim, keepdim, dtype):
    g = F.cast(g / _divisor(F, count), x_dtype)
    return F.where(F.isnan(x), 0.0, expand_grad(F, g, x.shape, dim, keepdim))


def _nanmean_jvp(F, t, x, x_dtype, count, dim, keepdim, dtype):
    total = _nansum_jvp(F, t, x, dim, keepdim, count.dtype)
    return F.cast(total / _divisor(F, count), x_dtype if dtype is None else dtypes.as_dtype(dtype))


@defop
class nanmean:
    """The mean over `dim` (an int, a tuple, or None for all) ignoring NaN; NaN if all elements are NaN.

    >>> ag.nanmean(ag.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5)
    """

    forward = _nanmean
    grad_x = _nanmean_back
    saved = ("count",)
    jvp, batch = _nanmean_jvp, REDUCING
    public = methods = True
