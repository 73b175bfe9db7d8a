"""Reductions over all dimensions or those that `dim` names. Half types are accumulated in float32."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...backend.cpu import numpy_ops, sums
from ...backend.cuda import sums as device_sums
from ...core.extend import FLOAT, LINEAR, REDUCING, Tensor, defop, public
from ..indexing.basic_index import from_right, wrap_dim
from ..shape.diagonal import diagonal

# ---- dimensions --------------------------------------------------------------------------------------


def axes(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`dim` as negative axes, the rightmost first; None and () name all of them."""
    if type(dim) is int and ndim:
        return (wrap_dim(dim, ndim) - ndim,)
    if isinstance(dim, np.integer):
        dim = int(dim)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(-1, -ndim - 1, -1))
    dims = (dim,) if isinstance(dim, int) else dim
    found = [wrap_dim(d, ndim) for d in dims]
    if len(set(found)) < len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(sorted([from_right(d, ndim) for d in found], reverse=True)) if ndim else ()


def axis_of(dim: Any, ndim: int) -> Any:
    """`dim` as NumPy and CuPy take it: None, one axis, or several."""
    if dim is None or (type(dim) is int and -ndim <= dim < ndim):
        return dim
    return axes(dim, ndim)


def negative(dim: Any, ndim: int) -> Any:
    """`dim` as negative axes; None stays."""
    return None if dim is None else axes(dim, ndim)


def kept(F: Any, y: Any, x_shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """A reduction's result with the reduced dimensions back, of size 1."""
    if keepdim or not x_shape:
        return y
    if type(dim) is int:
        return F.unsqueeze(y, from_right(dim, len(x_shape)))
    for axis in axes(dim, len(x_shape)):
        y = F.unsqueeze(y, axis)
    return y


def spread(F: Any, g: Any, x_shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """A reduction's gradient stretched over what was summed."""
    return F.expand(g if dim is None else kept(F, g, x_shape, dim, keepdim), x_shape)


def count(x_shape: tuple[int, ...], dim: Any) -> int:
    """How many elements make one element of the result."""
    if type(dim) is int and x_shape:
        return x_shape[wrap_dim(dim, len(x_shape))]
    return math.prod(x_shape if dim is None else [x_shape[axis] for axis in axes(dim, len(x_shape))])


def reduced(xp: Any, reduction: str, x: Any, dim: Any, keepdim: bool, dtype: Any = None) -> Any:
    """np.add.reduce and its kin over `dim`: twice as fast as np.sum, which looks for overrides first."""
    axis = axis_of(dim, x.ndim)
    if xp is np:
        return getattr(np, reduction).reduce(x, axis, dtype, None, keepdim)
    method = {"add": xp.sum, "multiply": xp.prod}[reduction]
    return method(x, axis=axis, dtype=dtype, keepdims=keepdim)


def added(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of float32 or float64 over `dim`, with a small rounding error."""
    if dim is not None and (type(dim) is not int or not -x.ndim <= dim < x.ndim):
        dim = axes(dim, x.ndim)
    return sums.total(x, dim, keepdim) if xp is np else device_sums.total(xp, x, dim, keepdim)


# ---- sums --------------------------------------------------------------------------------------------


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


def divided(total: Any, n: int | float) -> Any:
    """total / n in the dtype of `total`; without a warning for n = 0, where nothing gives NaN."""
    if n:
        return total / (numpy_ops.constant(n, total.dtype) if type(total) is np.ndarray else n)
    with np.errstate(invalid="ignore"):
        return total * math.inf


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


# ---- counts and the trace ------------------------------------------------------------------------------


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
    nondiff = True
    batch = REDUCING
    takes_out = False
    public = methods = True


@public(methods=True)
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> ag.trace(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return sum(diagonal(input))


# ---- norms -------------------------------------------------------------------------------------------


def _logsumexp(xp, x, *, dim, keepdim=False):
    axis, dtype = axis_of(dim, x.ndim), x.dtype
    x = x.astype(wide(dtype), copy=False)
    largest = np.maximum.reduce if xp is np else xp.max
    # the sum of nothing has the shape that its maximum would have
    highest = (largest if x.size else xp.sum)(x, axis=axis, keepdims=True)
    limits = np.finfo(x.dtype)
    finite = xp.minimum(xp.maximum(highest, limits.min), limits.max)
    total = added(xp, xp.exp(x - finite), dim, True)
    if not x.size:
        highest = highest - math.inf
    out = xp.log(xp.maximum(total, limits.tiny)) + highest  # not log(0), which warns: -inf is in `highest` already
    return (out if keepdim else out.squeeze(axis)).astype(dtype, copy=False)


def _logsumexp_back(F, g, x, out, dim, keepdim):
    g, out = kept(F, g, x.shape, dim, keepdim), kept(F, out, x.shape, dim, keepdim)
    return g * F.exp(x - out)


def _logsumexp_jvp(F, t, x, out, dim, keepdim):
    return F.sum(t * F.exp(x - kept(F, out, x.shape, dim, keepdim)), negative(dim, x.ndim), keepdim)


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
    methods = sensitive = True


def _order(p):
    if p is None or p == "fro":
        return 2.0
    if isinstance(p, str):
        other = "; the nuclear norm is ag.linalg.matrix_norm(x, 'nuc')" if p == "nuc" else ""
        raise RuntimeError(f"norm: p is a number or 'fro'; got {p!r}{other}")
    return float(p)


NOTHING = contextlib.nullcontext()


def _norm(xp, x, *, p="fro", dim=None, keepdim=False, dtype=None):
    p = _order(p)
    if p == 2 and xp is np and dtype is None and dim is not None and x.dtype in dtypes.FULL_FLOATS:
        return np.sqrt(added(xp, x * x, dim, keepdim))
    wanted = x.dtype if dtype is None else dtypes.computing(dtype)
    if wanted not in dtypes.FLOATS:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point tensor as input. Got {wanted}")
    x = x.astype(wide(wanted), copy=False)
    if p == 2 and xp is np and dim is None and not keepdim and x.flags.c_contiguous:
        return np.sqrt(np.vdot(x, x)).astype(wanted, copy=False)  # by BLAS, as np.linalg.norm does
    if p == 2:
        return xp.sqrt(added(xp, x * x, dim, keepdim)).astype(wanted, copy=False)
    size = xp.absolute(x)
    if not x.size and (p < 0 or math.isinf(p)):
        if 0 in [x.shape[axis] for axis in axes(dim, x.ndim)]:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {p:g} norm on an empty tensor because the "
                               "operation does not have an identity")
        return reduced(xp, "add", size, dim, keepdim).astype(wanted, copy=False)
    if math.isinf(p):
        extreme = xp.max if p > 0 else xp.min
        out = extreme(size, axis=None if dim is None else axes(dim, x.ndim), keepdims=keepdim)
    elif p == 0:
        out = added(xp, (size != 0).astype(size.dtype), dim, keepdim)
    elif p == 1:
        out = added(xp, size, dim, keepdim)
    else:
        with np.errstate(divide="ignore") if p < 0 else NOTHING:  # 0 ** -1
            out = added(xp, size**p, dim, keepdim) ** (1 / p)
    return out.astype(wanted, copy=False)


def _norm_back(F, g, x, x_dtype, out, p, dim, keepdim, dtype):
    p = _order(p)
    x = x if dtype is None else F.cast(x, dtypes.as_dtype(dtype))
    g, out = kept(F, g, x.shape, dim, keepdim), kept(F, out, x.shape, dim, keepdim)
    result = _norm_slope(F, x, out, p, dim) * g
    return result if dtype is None else F.cast(result, x_dtype)


def _norm_jvp(F, t, x, out, p, dim, keepdim, dtype):
    if dtype is not None:
        x, t = F.cast(x, dtypes.as_dtype(dtype)), F.cast(t, dtypes.as_dtype(dtype))
    slope = _norm_slope(F, x, kept(F, out, x.shape, dim, keepdim), _order(p), dim)
    return F.sum(slope * t, negative(dim, x.ndim), keepdim)


def _norm_slope(F, x, out, p, dim):
    """d out / d x, 0 where out is 0."""
    if p == 0:
        return F.constant_like(x, 0.0)
    if p == 1:
        return F.sign(x)
    if math.isinf(p):  # shared by all that are as large
        ties = F.cast(F.eq(F.abs(x), out), x.dtype)
        return F.sign(x) * ties / F.sum(ties, negative(dim, x.ndim), True)
    zero = out == 0
    if p == 2:  # of numbers whose squares are 0, the norm is
        return x / F.where(zero, math.inf, out)
    ratio = x / F.where(zero, 1.0, out)
    base = F.where(x == 0, 1.0, F.abs(ratio))  # 0 ** (p - 1) has no derivative that would be finite for p < 2
    return F.where(F.logical_or(x == 0, zero), 0.0, F.sign(x) * F.pow(base, p - 1))


@defop
class norm:
    """The p-norm over `dim` (an int, a tuple, or None for all): sum(|x| ** p) ** (1 / p); "fro" is the 2-norm.

    p may be inf and -inf (the largest and smallest |x|) and 0 (how many are not zero). Where the norm is 0 its
    derivative is 0.

    >>> ag.norm(ag.tensor([3.0, 4.0]))
    tensor(5.)
    """

    forward = _norm
    grad_x = _norm_back
    jvp, batch = _norm_jvp, REDUCING
    public = methods = sensitive = True
