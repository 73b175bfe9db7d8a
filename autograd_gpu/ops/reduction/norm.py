"""The p-norm over dimensions."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import REDUCING, defop
from .dimensions import axes, float_sum, negative_axes, restore_dims, statistic_of_rows, ufunc_reduce


def _order(p):
    if p is None or p == "fro":
        return 2.0
    if isinstance(p, str):
        other = "; the nuclear norm is ag.linalg.matrix_norm(x, 'nuc')" if p == "nuc" else ""
        raise RuntimeError(f"norm: p is a number or 'fro'; got {p!r}{other}")
    return float(p)


NO_CONTEXT = contextlib.nullcontext()


def _norm(xp, x, *, p="fro", dim=None, keepdim=False, dtype=None):
    p = _order(p)
    if p == 2 and dtype is None and dim is not None and x.dtype in dtypes.FULL_FLOATS:
        return xp.sqrt(float_sum(xp, x * x, dim, keepdim))
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    if out_dtype not in dtypes.FLOATS:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point tensor as input. Got {out_dtype}")
    x = x.astype(wide(out_dtype), copy=False)
    if p == 2:
        whole = dim is None and not keepdim
        squares = backend.sum_of_squares(xp, x) if whole else float_sum(xp, x * x, dim, keepdim)
        return xp.sqrt(squares).astype(out_dtype, copy=False)
    size = xp.absolute(x)
    if not x.size and (p < 0 or math.isinf(p)):
        if 0 in [x.shape[axis] for axis in axes(dim, x.ndim)]:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {p:g} norm on an empty tensor because the "
                               "operation does not have an identity")
        return ufunc_reduce(xp, "add", size, dim, keepdim).astype(out_dtype, copy=False)
    if math.isinf(p):
        extreme = xp.max if p > 0 else xp.min
        out = extreme(size, axis=None if dim is None else axes(dim, x.ndim), keepdims=keepdim)
    elif p == 0:
        out = float_sum(xp, (size != 0).astype(size.dtype), dim, keepdim)
    elif p == 1:
        out = float_sum(xp, size, dim, keepdim)
    else:
        with np.errstate(divide="ignore") if p < 0 else NO_CONTEXT:  # 0 ** -1
            out = float_sum(xp, size**p, dim, keepdim) ** (1 / p)
    return out.astype(out_dtype, copy=False)


def _norm_back(F, g, x, x_dtype, out, p, dim, keepdim, dtype):
    p = _order(p)
    x = x if dtype is None else F.cast(x, dtypes.as_dtype(dtype))
    g, out = restore_dims(F, g, x.shape, dim, keepdim), restore_dims(F, out, x.shape, dim, keepdim)
    result = _norm_derivative(F, x, out, p, dim) * g
    return result if dtype is None else F.cast(result, x_dtype)


def _norm_jvp(F, t, x, out, p, dim, keepdim, dtype):
    if dtype is not None:
        x, t = F.cast(x, dtypes.as_dtype(dtype)), F.cast(t, dtypes.as_dtype(dtype))
    derivative = _norm_derivative(F, x, restore_dims(F, out, x.shape, dim, keepdim), _order(p), dim)
    return F.sum(derivative * t, negative_axes(dim, x.ndim), keepdim)


def _norm_derivative(F, x, out, p, dim):
    """d out / d x, 0 where out is 0."""
    if p == 0:
        return F.constant_like(x, 0.0)
    if p == 1:
        return F.sign(x)
    if math.isinf(p):  # ties share the gradient
        ties = F.cast(F.eq(F.abs(x), out), x.dtype)
        return F.sign(x) * ties / F.sum(ties, negative_axes(dim, x.ndim), True)
    zero = out == 0
    if p == 2:  # of numbers whose squares are 0, the norm is
        return x / F.where(zero, math.inf, out)
    ratio = x / F.where(zero, 1.0, out)
    base = F.where(x == 0, 1.0, F.abs(ratio))  # the derivative of 0 ** (p - 1) is infinite for p < 2
    return F.where(F.logical_or(x == 0, zero), 0.0, F.sign(x) * F.pow(base, p - 1))


@defop
class norm:
    """The p-norm over `dim` (an int, a tuple, or None for all): sum(|x| ** p) ** (1 / p); "fro" is the 2-norm.

    p may be inf and -inf (the largest and smallest |x|) and 0 (the number of nonzero elements). The derivative of a
    norm of 0 is 0.

    >>> ag.norm(ag.tensor([3.0, 4.0]))
    tensor(5.)
    """

    forward, cuda = _norm, statistic_of_rows("norm", _norm, lambda p: _order(p) == 2)
    grad_x = _norm_back
    jvp, batch = _norm_jvp, REDUCING
    wide_rules = True
    public = methods = no_lossy_save = True
