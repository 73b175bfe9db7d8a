"""Sums, means, products and counts of nonzero elements. Half types are accumulated in float32."""

from __future__ import annotations

import math

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...backend.cpu.half import convert
from ...core.extend import LEADING, LINEAR, REDUCING, counted_from_right, defop, rank
from ..indexing.basic_index import from_right
from .dimensions import (
    axes,
    divided_by_count,
    expand_grad,
    float_sum,
    floating,
    product_dtype,
    reduced_size,
    statistic_of_rows,
    ufunc_reduce,
)


def _sum_of_halves(x, dims, keepdim):
    """The sum over the last or the first dimensions by a kernel that accumulates in float32; None for other dimensions.

    CuPy needs three launches, two of them over arrays of x's size.
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
        return float_sum(xp, x, dim, keepdim)
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    if dtype is None and out_dtype not in dtypes.FLOATS:
        return ufunc_reduce(xp, "add", x, dim, keepdim, dtypes.int64)
    return _sum_in_dtype(xp, out_dtype, x, dim, keepdim)


def _sum_cuda(xp, x, *, dim=None, keepdim=False, dtype=None):
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    total = None
    if out_dtype is x.dtype and out_dtype in dtypes.HALF and x.ndim:
        total = _sum_of_halves(x, axes(dim, x.ndim), keepdim)
    return _sum(xp, x, dim=dim, keepdim=keepdim, dtype=dtype) if total is None else total


def _sum_in_dtype(xp, out_dtype, x, dim, keepdim):
    """The sum in the dtype `out_dtype`, rounded once."""
    wider = wide(out_dtype)
    if wider not in dtypes.FULL_FLOATS:
        return ufunc_reduce(xp, "add", x.astype(wider, copy=False), dim, keepdim).astype(out_dtype, copy=False)
    return float_sum(xp, convert(x, wider), dim, keepdim).astype(out_dtype, copy=False)


def _sum_back(F, g, x_shape, x_dtype, dim, keepdim, dtype):
    return expand_grad(F, g if dtype is None else F.cast(g, x_dtype), x_shape, dim, keepdim)


@defop
class sum:
    """The sum over `dim` (an int, a tuple, or None for all); integers and bools sum to int64.

    >>> ag.sum(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([4., 6.])
    """

    forward, cuda = _sum, _sum_cuda
    grad_x = _sum_back
    def differentiable(dim, keepdim, dtype): return floating(dtype)
    jvp, batch = LINEAR, REDUCING
    public = methods = True


def _mean(xp, x, *, dim=None, keepdim=False, dtype=None):
    if dtype is None and x.dtype in dtypes.FULL_FLOATS:
        return divided_by_count(float_sum(xp, x, dim, keepdim), reduced_size(x.shape, dim))
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    if out_dtype not in dtypes.FLOATS:
        raise RuntimeError("mean(): could not infer output dtype. Input dtype must be a floating point dtype. "
                           f"Got: {out_dtype}; convert with .float() first")
    x = convert(x, wide(out_dtype))
    return divided_by_count(float_sum(xp, x, dim, keepdim), reduced_size(x.shape, dim)).astype(out_dtype, copy=False)


def _mean_back(F, g, x_shape, x_dtype, dim, keepdim, dtype):
    g = g if dtype is None else F.cast(g, x_dtype)
    return expand_grad(F, g / (reduced_size(x_shape, dim) or 1), x_shape, dim, keepdim)


@defop
class mean:
    """The mean over `dim` (an int, a tuple, or None for all) of a floating-point tensor.

    >>> ag.mean(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5, 3.5])
    """

    forward, cuda = _mean, statistic_of_rows("mean", _mean)
    grad_x = _mean_back
    jvp, batch = LINEAR, REDUCING
    public = methods = True


def _count_nonzero(xp, x, *, dim=None):
    if dim is None:
        return np.asarray(np.count_nonzero(x))
    return _count_nonzero_cuda(xp, x, dim=dim)


def _count_nonzero_cuda(xp, x, *, dim=None):
    return ufunc_reduce(xp, "add", (x != 0).astype(dtypes.int64), dim, False)


@defop
class count_nonzero:
    """The number of nonzero elements over `dim` (an int, a tuple, or None for all), as int64.

    >>> ag.count_nonzero(ag.tensor([[0.0, 1.0], [2.0, 3.0]]), 0)
    tensor([1, 2])
    """

    forward, cuda = _count_nonzero, _count_nonzero_cuda
    nondiff = True
    batch = REDUCING
    takes_out = False
    public = methods = True


# ---- products ----------------------------------------------------------------------------------------


def _prod(xp, x, *, dim=None, keepdim=False, dtype=None):
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}; multiply over one at a time")
    if dtype is None and x.dtype in dtypes.FULL_FLOATS:
        return ufunc_reduce(xp, "multiply", x, dim, keepdim)
    out_dtype = product_dtype(x, dtype)
    out = ufunc_reduce(xp, "multiply", x.astype(wide(out_dtype), copy=False), dim, keepdim)
    return out.astype(out_dtype, copy=False)


def _prod_back(F, g, x, x_dtype, dim, keepdim, dtype):
    if dtype is not None:
        g = F.cast(g, x_dtype)
    if dim is not None and x.ndim and not keepdim:
        g = F.unsqueeze(g, from_right(dim, x.ndim))
    return _prod_of_others(F, x, dim) * g


def _prod_of_others(F, x, dim):
    if dim is None or not x.ndim:
        return F.reshape(F.exclusive_prod(F.reshape(x, (-1,))), x.shape)
    return F.exclusive_prod(x, from_right(dim, x.ndim))


def _prod_batch(F, n, batched, x, *, dim, keepdim, dtype):
    ndim = rank(x, True)
    dim = counted_from_right(dim, ndim)
    if dim is not None and ndim:
        return F.prod(x, dim, keepdim, dtype)
    out = F.prod(F.reshape(x, (n, math.prod(x.shape[1:]))), -1, False, dtype)
    return F.reshape(out, (n, *(1,) * ndim)) if keepdim else out


@defop
class prod:
    """The product along `dim`, or of all elements; integers and bools multiply to int64.

    The gradient is computed without division, so it is right for zeros; second derivatives take memory quadratic in the
    number of factors.

    >>> ag.prod(ag.tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """

    forward = _prod
    grad_x = _prod_back
    def jvp(F, t, x, dim, keepdim, dtype): return F.sum(_prod_of_others(F, x, dim) * t, dim, keepdim, dtype)
    batch = _prod_batch
    def differentiable(dim, keepdim, dtype): return floating(dtype)
    public = methods = True


def _exclusive_prod(xp, x, *, dim=-1):
    y = xp.moveaxis(x.astype(wide(x.dtype), copy=False), dim, 0)
    out = xp.ones(y.shape, y.dtype)
    if len(y) > 1:
        out[1:] = xp.cumprod(y[:-1], axis=0)
        out[:-1] *= xp.cumprod(y[:0:-1], axis=0)[::-1]
    return xp.moveaxis(out, 0, dim).astype(x.dtype, copy=False)


def _exclusive_prod_back(F, g, x, dim):
    """sum over j of g_j * product of x without x_j and x_k: row j of `others` is x with x_j replaced by 1."""
    last, n = F.transpose(x, dim, -1), x.shape[dim]
    square = F.expand(F.unsqueeze(last, -2), (*last.shape[:-1], n, n))
    diagonal = F.tril(F.triu(F.constant_like(square, 1.0))) != 0
    others = F.where(diagonal, 0.0, F.exclusive_prod(F.where(diagonal, 1.0, square), -1))
    return F.transpose(F.sum(F.unsqueeze(F.transpose(g, dim, -1), -1) * others, -2), dim, -1)


@defop
class exclusive_prod:
    """Along a negative `dim`, the product of all other elements.

    >>> from autograd_gpu.ops.reduction.sum import exclusive_prod
    >>> exclusive_prod(ag.tensor([2.0, 3.0, 0.0]))
    tensor([0., 0., 6.])
    """

    forward = _exclusive_prod
    grad_x = jvp = _exclusive_prod_back  # the Jacobian is symmetric
    batch = LEADING
    wide_rules = True
