"""log(sum(exp(x))) without overflow."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import wide
from ...core.extend import FLOAT, REDUCING, defop
from .dimensions import float_sum, negative_axes, numpy_axis, restore_dims


def _logsumexp(xp, x, *, dim, keepdim=False):
    axis, dtype = numpy_axis(dim, x.ndim), x.dtype
    x = x.astype(wide(dtype), copy=False)
    # an empty sum, which has the shape of the maximum
    highest = backend.reduce(xp, "maximum" if x.size else "add", x, axis, True)
    limits = np.finfo(x.dtype)
    finite = xp.minimum(xp.maximum(highest, limits.min), limits.max)
    total = float_sum(xp, xp.exp(x - finite), dim, True)
    if not x.size:
        highest = highest - math.inf
    out = xp.log(xp.maximum(total, limits.tiny)) + highest  # avoids the warning of log(0); `highest` is -inf there
    return (out if keepdim else out.squeeze(axis)).astype(dtype, copy=False)


def _logsumexp_back(F, g, x, out, dim, keepdim):
    g, out = restore_dims(F, g, x.shape, dim, keepdim), restore_dims(F, out, x.shape, dim, keepdim)
    return g * F.exp(x - out)


def _logsumexp_jvp(F, t, x, out, dim, keepdim):
    return F.sum(t * F.exp(x - restore_dims(F, out, x.shape, dim, keepdim)), negative_axes(dim, x.ndim), keepdim)


@defop
class logsumexp:
    """log(sum(exp(x))) over `dim`, an int or a tuple, without overflow.

    >>> ag.logsumexp(ag.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """

    forward = _logsumexp
    grad_x = _logsumexp_back
    types = FLOAT
    jvp, batch = _logsumexp_jvp, REDUCING
    public = "logsumexp", "special.logsumexp"
    methods = no_lossy_save = True
