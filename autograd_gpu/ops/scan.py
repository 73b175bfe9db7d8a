"""Products, and sums that grow along a dimension."""

from __future__ import annotations

from ..backend import dtypes
from ..core.dispatch import defop
from .reduce import reduced, wide
from .slicing import from_right, wrap_dim


def _result_dtype(x, dtype):
    """The given dtype; without one int64 for integers and bools, else that of x."""
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return x.dtype if x.dtype in dtypes.FLOATS else dtypes.int64


def _stays_float(dim, keepdim, dtype):
    return dtype is None or dtypes.as_dtype(dtype) in dtypes.FLOATS


# ---- products ----------------------------------------------------------------------------------------


def _prod(xp, x, *, dim=None, keepdim=False, dtype=None):
    wanted = _result_dtype(x, dtype)
    out = reduced(xp, "multiply", x.astype(wide(wanted), copy=False), dim, keepdim)
    return out.astype(wanted, copy=False)


def _prod_back(F, g, x, x_dtype, dim, keepdim, dtype):
    if dtype is not None:
        g = F.cast(g, x_dtype)
    if dim is None:
        return F.reshape(F.exclusive_prod(F.reshape(x, (-1,))), x.shape) * g
    if not x.ndim:
        return g
    if not keepdim:
        g = F.unsqueeze(g, from_right(dim, x.ndim))
    return F.exclusive_prod(x, from_right(dim, x.ndim)) * g


@defop
class prod:
    """The product along `dim`, or of all elements; integers and bools multiply to int64.

    The gradient needs no division, so that it is right where elements are 0; differentiating it once more takes memory
    quadratic in the number of factors.

    >>> ag.prod(ag.tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """

    forward = _prod
    grad_x = _prod_back
    differentiable = _stays_float


def _exclusive_prod(xp, x, *, dim=-1):
    y = xp.moveaxis(x.astype(wide(x.dtype), copy=False), dim, 0)
    out = xp.ones(y.shape, y.dtype)
    if len(y) > 1:
        out[1:] = xp.cumprod(y[:-1], axis=0)
        out[:-1] *= xp.cumprod(y[:0:-1], axis=0)[::-1]
    return xp.moveaxis(out, 0, dim).astype(x.dtype, copy=False)


def _exclusive_prod_back(F, g, x, dim):
    """sum over j of g_j * product of x without j and k: row j of `others` is x with 1 in place of x_j."""
    last, n = F.transpose(x, dim, -1), x.shape[dim]
    square = F.expand(F.unsqueeze(last, -2), (*last.shape[:-1], n, n))
    diagonal = F.tril(F.triu(F.constant_like(square, 1.0))) != 0
    others = F.where(diagonal, 0.0, F.exclusive_prod(F.where(diagonal, 1.0, square), -1))
    return F.transpose(F.sum(F.unsqueeze(F.transpose(g, dim, -1), -1) * others, -2), dim, -1)


@defop
class exclusive_prod:
    """Along a negative `dim`, the product of all other elements.

    >>> from autograd_gpu.ops.scan import exclusive_prod
    >>> exclusive_prod(ag.tensor([2.0, 3.0, 0.0]))
    tensor([0., 0., 6.])
    """

    forward = _exclusive_prod
    grad_x = _exclusive_prod_back


# ---- cumulative sums ---------------------------------------------------------------------------------


def _cumsum(xp, x, *, dim, dtype=None, reverse=False):
    axis, wanted = wrap_dim(dim, x.ndim), _result_dtype(x, dtype)
    y = x.astype(wide(wanted), copy=False)
    if not x.ndim:
        return y.astype(wanted)
    order = tuple(slice(None, None, -1) if reverse and i == axis else slice(None) for i in range(x.ndim))
    return xp.cumsum(y[order], axis=axis)[order].astype(wanted, copy=False)


def _cumsum_back(F, g, x_shape, x_dtype, dim, dtype, reverse):
    g = g if dtype is None else F.cast(g, x_dtype)
    return F.cumsum(g, from_right(dim, len(x_shape)), None, not reverse)


@defop
class cumsum:
    """The sums of the first 1, 2, ... elements along `dim`; with `reverse` of the last n, n - 1, ... elements.

    >>> ag.cumsum(ag.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """

    forward = _cumsum
    grad_x = _cumsum_back
    def differentiable(dim, dtype, reverse): return _stays_float(dim, None, dtype)
