"""Products, and sums and extremes that grow along a dimension."""

from __future__ import annotations

import math

import numpy as np

from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...backend.cpu import scans
from ...core.extend import FLOAT, LEADING, LINEAR, along, counted_from_right, defop, rank
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, key_along, wrap_dim
from ..sorting.sort import values_back, values_jvp
from .dimensions import reduced


def result_dtype(x, dtype):
    """The given dtype; without one int64 for integers and bools, else that of x."""
    if dtype is not None:
        return dtypes.computing(dtype)
    return x.dtype if x.dtype in dtypes.FLOATS else dtypes.int64


def stays_float(dim, keepdim, dtype):
    return dtype is None or dtypes.as_dtype(dtype) in dtypes.FLOATS


# ---- products ----------------------------------------------------------------------------------------


def _prod(xp, x, *, dim=None, keepdim=False, dtype=None):
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}; multiply over one at a time")
    if dtype is None and x.dtype in dtypes.FULL_FLOATS:
        return reduced(xp, "multiply", x, dim, keepdim)
    wanted = result_dtype(x, dtype)
    out = reduced(xp, "multiply", x.astype(wide(wanted), copy=False), dim, keepdim)
    return out.astype(wanted, copy=False)


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

    The gradient needs no division, so that it is right where elements are 0; differentiating it once more takes memory
    quadratic in the number of factors.

    >>> ag.prod(ag.tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """

    forward = _prod
    grad_x = _prod_back
    def jvp(F, t, x, dim, keepdim, dtype): return F.sum(_prod_of_others(F, x, dim) * t, dim, keepdim, dtype)
    batch = _prod_batch
    differentiable = stays_float
    public = methods = True


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

    >>> from autograd_gpu.ops.reduction.cumulative import exclusive_prod
    >>> exclusive_prod(ag.tensor([2.0, 3.0, 0.0]))
    tensor([0., 0., 6.])
    """

    forward = _exclusive_prod
    grad_x = jvp = _exclusive_prod_back  # the Jacobian is symmetric
    batch = LEADING


# ---- cumulative sums ---------------------------------------------------------------------------------


def _cumsum(xp, x, *, dim, dtype=None, reverse=False):
    if dtype is None and not reverse and xp is np and -x.ndim <= dim < x.ndim and x.dtype in dtypes.FULL_FLOATS:
        return scans.accumulate(np.add, x, dim)
    axis, wanted = wrap_dim(dim, x.ndim), result_dtype(x, dtype)
    y = x.astype(wide(wanted), copy=False)
    if not x.ndim:
        return y.astype(wanted)
    turn = key_along(axis - x.ndim, slice(None, None, -1)) if reverse else ...
    out = scans.accumulate(np.add, y[turn], axis) if xp is np else xp.cumsum(y[turn], axis=axis)
    return out[turn].astype(wanted, copy=False)


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
    def differentiable(dim, dtype, reverse): return stays_float(dim, None, dtype)
    jvp, batch = LINEAR, along("dim")
    public = methods = inplace = True


# ---- cumulative sums of exponentials -----------------------------------------------------------------


def running(xp, name, x, axis):
    """ufunc.accumulate of maximum, minimum or logaddexp; CuPy, which has it not, doubles what is done at each step."""
    if xp is np:
        return scans.accumulate(getattr(np, name), x, axis)
    axis, combine, step = from_right(axis, x.ndim), getattr(xp, name), 1
    while step < x.shape[axis]:
        early, late = key_along(axis, slice(-step)), key_along(axis, slice(step, None))
        further = x.copy()
        further[late] = combine(x[early], x[late])
        x, step = further, 2 * step
    return x


def _logcumsumexp(xp, x, *, dim, reverse=False):
    axis = wrap_dim(dim, x.ndim)
    if not x.ndim:
        return x + 0
    turn = key_along(from_right(axis, x.ndim), slice(None, None, -1 if reverse else None))
    return running(xp, "logaddexp", x[turn], dim)[turn]


def _logcumsumexp_back(F, g, x, out, dim, reverse):
    return F.exp_cumsum(g, -out, -x, from_right(dim, x.ndim), not reverse)


@defop
class logcumsumexp:
    """log(cumsum(exp(x))) along `dim` without overflow; with `reverse` of the last n, n - 1, ... elements.

    >>> ag.logcumsumexp(ag.tensor([1000.0, 1000.0]), 0)
    tensor([1000.    , 1000.6932])
    """

    forward = in_float32(_logcumsumexp)
    grad_x = _logcumsumexp_back
    def jvp(F, t, x, out, dim, reverse): return F.exp_cumsum(t, x, out, from_right(dim, x.ndim), reverse)
    types, batch = FLOAT, along("dim")
    public = methods = sensitive = True


def _exp_cumsum(xp, h, x, y, *, dim, reverse):
    if not h.ndim:
        return h * xp.exp(x - y)
    result = 0
    with np.errstate(divide="ignore"):  # log(0)
        for sign in (1, -1):
            logs = xp.log(xp.maximum(h * sign, 0)) + x
            result = result + sign * xp.exp(_logcumsumexp(xp, logs, dim=dim, reverse=reverse) - y)
    return result


def _exp_cumsum_jvp(F, t, h, x, y, out, dim, reverse):
    h_t, x_t, y_t = t
    if x_t is not None:
        h_t = h * x_t if h_t is None else h_t + h * x_t
    grown = None if h_t is None else F.exp_cumsum(h_t, x, y, dim, reverse)
    if y_t is None:
        return grown
    return -y_t * out if grown is None else grown - y_t * out


@defop
class exp_cumsum:
    """cumsum(h * exp(x)) * exp(-y) along a negative `dim` without overflow where every x_i <= y_k that it meets.

    It is its own transpose, with -y for x, -x for y, and the other way round.

    >>> from autograd_gpu.ops.reduction.cumulative import exp_cumsum
    >>> exp_cumsum(ag.tensor([1.0, 1.0]), ag.zeros(2), ag.zeros(2), -1, False)
    tensor([1., 2.])
    """

    forward = in_float32(_exp_cumsum)
    def grad_h(F, g, x, y, dim, reverse): return F.exp_cumsum(g, -y, -x, dim, not reverse)
    def grad_x(F, g, h, x, y, dim, reverse): return h * F.exp_cumsum(g, -y, -x, dim, not reverse)
    def grad_y(F, g, out): return -g * out
    jvp, batch = _exp_cumsum_jvp, LEADING


# ---- cumulative extremes -----------------------------------------------------------------------------


def _growing(xp, name, x, dim):
    """The running extreme, and where it was last met; a NaN stays."""
    wrap_dim(dim, x.ndim)
    if not x.ndim:
        return xp.array(x), xp.zeros((), dtypes.int64)
    values = running(xp, name, x, dim)
    places = xp.arange(x.shape[dim]).reshape((-1,) + (1,) * (-1 - from_right(dim, x.ndim)))
    met = (x == values) | (x != x) if x.dtype in dtypes.FLOATS else x == values
    return values, running(xp, "maximum", met * places, dim)


@defop
class cummax:
    """(values, indices): the largest of the first 1, 2, ... elements along `dim`, and the last place of each.

    >>> ag.cummax(ag.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """

    def forward(xp, x, *, dim): return _growing(xp, "maximum", x, dim)
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True


@defop
class cummin:
    """(values, indices): the smallest of the first 1, 2, ... elements along `dim`, and the last place of each.

    >>> ag.cummin(ag.tensor([2.0, 1.0, 3.0]), 0).indices
    tensor([0, 1, 1])
    """

    def forward(xp, x, *, dim): return _growing(xp, "minimum", x, dim)
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True
