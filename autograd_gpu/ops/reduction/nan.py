"""Sums and means of the elements that are not NaN."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import REDUCING, defop
from .dimensions import added, floating, negative, reduced, spread
from .sum import sum


def _without(xp, x):
    """x with 0 in place of NaN."""
    unknown = xp.isnan(x)
    if xp is np and not np.count_nonzero(unknown):
        return x
    return backend.where(xp, unknown, 0.0, x).astype(x.dtype, copy=False)


def _nansum(xp, x, *, dim=None, keepdim=False, dtype=None):
    return sum.op.forward(xp, _without(xp, x) if x.dtype in dtypes.FLOATS else x, dim=dim, keepdim=keepdim, dtype=dtype)


def _nansum_back(F, g, x, x_dtype, dim, keepdim, dtype):
    g = g if dtype is None else F.cast(g, x_dtype)
    return F.where(F.isnan(x), 0.0, spread(F, g, x.shape, dim, keepdim))


def _nansum_jvp(F, t, x, dim, keepdim, dtype):
    return F.sum(F.where(F.isnan(x), 0.0, t), negative(dim, x.ndim), keepdim, dtype)


@defop
class nansum:
    """The sum over `dim` (an int, a tuple, or None for all) of what is not NaN; integers and bools sum to int64.

    >>> ag.nansum(ag.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """

    forward = _nansum
    grad_x = _nansum_back
    def differentiable(dim, keepdim, dtype): return floating(dtype)
    jvp, batch = _nansum_jvp, REDUCING
    public = methods = True


def _nanmean(xp, x, *, dim=None, keepdim=False, dtype=None):
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"nanmean(): expected input to have floating point dtype but got {x.dtype}; "
                           "convert with .float() first")
    wanted = x.dtype if dtype is None else dtypes.computing(dtype)
    total = added(xp, _without(xp, x).astype(wide(wanted), copy=False), dim, keepdim)
    found = reduced(xp, "add", x == x, dim, keepdim, dtypes.int64).astype(total.dtype)
    found = backend.where(xp, found == 0, math.nan, found).astype(total.dtype, copy=False)
    return (total / found).astype(wanted, copy=False), {"found": found}


def _divisor(F, found):
    """How many were found, 1 where none was: a derivative is 0 there, not NaN."""
    return F.where(F.isnan(found), 1.0, found)


def _nanmean_back(F, g, x, x_dtype, found, dim, keepdim, dtype):
    g = F.cast(g / _divisor(F, found), x_dtype)
    return F.where(F.isnan(x), 0.0, spread(F, g, x.shape, dim, keepdim))


def _nanmean_jvp(F, t, x, x_dtype, found, dim, keepdim, dtype):
    total = _nansum_jvp(F, t, x, dim, keepdim, found.dtype)
    return F.cast(total / _divisor(F, found), x_dtype if dtype is None else dtypes.as_dtype(dtype))


@defop
class nanmean:
    """The mean over `dim` (an int, a tuple, or None for all) of what is not NaN; NaN where everything is.

    >>> ag.nanmean(ag.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5)
    """

    forward = _nanmean
    grad_x = _nanmean_back
    saved = ("found",)
    jvp, batch = _nanmean_jvp, REDUCING
    public = methods = True
