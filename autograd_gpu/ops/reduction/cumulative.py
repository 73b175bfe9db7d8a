"""Cumulative sums, products, maxima and minima.

Note [Zeros in a product]
Element i of the vector-Jacobian product is the sum over k >= i of g_k times the first k factors without x_i: the sum of
g_k * out_k from i on, divided by x_i. If x_i is the first zero, it is that sum with x_i replaced by 1; after a second
zero all terms are 0. So two cumulative products are enough for any x, in time linear in the number of factors.
"""

from __future__ import annotations

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import FLOAT, LINEAR, added, along, defop
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, key_along, wrap_dim
from ..sorting.sort import values_back, values_jvp
from .dimensions import floating, product_dtype

# ---- cumulative sums ---------------------------------------------------------------------------------


def _cumsum(xp, x, *, dim, dtype=None, reverse=False):
    if dtype is None and not reverse and -x.ndim <= dim < x.ndim and x.dtype in dtypes.FULL_FLOATS:
        return backend.accumulate(xp, "add", x, dim)
    axis, out_dtype = wrap_dim(dim, x.ndim), product_dtype(x, dtype)
    y = x.astype(wide(out_dtype), copy=False)
    if not x.ndim:
        return y.astype(out_dtype)
    turn = key_along(axis - x.ndim, slice(None, None, -1)) if reverse else ...
    out = backend.accumulate(xp, "add", y[turn], axis)
    return out[turn].astype(out_dtype, copy=False)


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
    def differentiable(dim, dtype, reverse): return floating(dtype)
    jvp, batch = LINEAR, along("dim")
    public = methods = inplace = True


# ---- cumulative products -----------------------------------------------------------------------------


def _cumprod(xp, x, *, dim, dtype=None):
    axis, out_dtype = wrap_dim(dim, x.ndim), product_dtype(x, dtype)
    if not x.ndim:
        return x.astype(out_dtype)
    y = x.astype(wide(out_dtype), copy=False)
    out = backend.accumulate(xp, "multiply", y, axis)
    return out.astype(out_dtype, copy=False)


def _cumprod_back(F, g, x, x_dtype, dim, dtype):
    if dtype is not None:
        g = F.cast(g, x_dtype)
    return F.cumprod_vjp(g, x, from_right(dim, x.ndim)) if x.ndim else g


def _cumprod_tangent(F, t, x, out, dim, dtype):
    if dtype is not None:
        t, x = F.cast(t, out.dtype), F.cast(x, out.dtype)
    return F.cumprod_jvp(t, x, from_right(dim, x.ndim)) if x.ndim else t


@defop
class cumprod:
    """The products of the first 1, 2, ... elements along `dim`; for integers and bools in int64.

    The gradient is also right for zeros; second derivatives take memory quadratic in the number of factors.

    >>> ag.cumprod(ag.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """

    forward = _cumprod
    grad_x = _cumprod_back
    def differentiable(dim, dtype): return floating(dtype)
    jvp, batch = _cumprod_tangent, along("dim")
    public = methods = inplace = True


def _parts(xp, x, dim):
    """Note [Zeros in a product]: the mask of zeros, that of first zeros, x without zeros, both cumulative products."""
    zero = x == 0
    if backend.seen_none(zero):
        out = backend.accumulate(xp, "multiply", x, dim)
        return zero, zero, x, out, out
    first = zero & (xp.cumsum(zero, axis=dim) == 1)
    without = backend.where(xp, zero, 1, x).astype(x.dtype, copy=False)
    beyond = backend.where(xp, first, 1, x).astype(x.dtype, copy=False)
    return zero, first, without, xp.cumprod(x, axis=dim), xp.cumprod(beyond, axis=dim)


def _cumprod_vjp(xp, h, x, *, dim):
    zero, first, without, out, beyond = _parts(xp, x, dim)
    turn = key_along(dim, slice(None, None, -1))

    def from_here_on(y):
        return xp.cumsum(y[turn], axis=dim)[turn]

    result = from_here_on(h * out) / without
    if first is zero:
        return result
    return backend.where(xp, first, from_here_on(h * beyond), backend.where(xp, zero, 0, result))


def _cumprod_jvp(xp, change, x, *, dim):
    zero, first, without, out, beyond = _parts(xp, x, dim)
    ratio = change / without
    if first is zero:
        return out * xp.cumsum(ratio, axis=dim)
    past = beyond * xp.cumsum(backend.where(xp, first, change, 0), axis=dim)
    return out * xp.cumsum(backend.where(xp, zero, 0, ratio), axis=dim) + past


def _rows(F, y, dim):
    """The vectors along `dim`, each expanded to a matrix with that vector in every row."""
    last, n = F.unsqueeze(F.transpose(y, dim, -1), -2), y.shape[dim]
    return F.expand(last, (*last.shape[:-2], n, n))


def _without_one(F, x, dim):
    """Matrices whose row m is x with x_m replaced by 1, and the mask of these elements."""
    square = _rows(F, x, dim)
    diagonal = F.tril(F.triu(F.constant_like(square, 1.0))) != 0
    return F.where(diagonal, 1.0, square), diagonal


def _vjp_derivative(F, g, t, x, dim):
    """The derivative of <t, cumprod_vjp(g, x)> by x, which is also that of cumprod_vjp(g, x) in direction t."""
    others, diagonal = _without_one(F, x, dim)
    parts = F.cumprod_vjp(F.triu(_rows(F, g, dim)), others, -1)
    return F.transpose(F.sum(F.where(diagonal, 0.0, _rows(F, t, dim)) * parts, -1), dim, -1)


def _jvp_derivative(F, t, change, x, dim):
    """The derivative of cumprod_jvp(change, x) by x in direction t: change_m times that of the product without x_m."""
    others, diagonal = _without_one(F, x, dim)
    parts = F.cumprod_jvp(F.where(diagonal, 0.0, _rows(F, t, dim)), others, -1)
    columns = F.unsqueeze(F.transpose(change, dim, -1), -1)
    return F.transpose(F.sum(F.triu(parts) * columns, -2), dim, -1)


def _cumprod_vjp_tangent(F, t, h, x, dim):
    direct = None if t[0] is None else F.cumprod_vjp(t[0], x, dim)
    return direct if t[1] is None else added(direct, _vjp_derivative(F, h, t[1], x, dim))


@defop
class cumprod_vjp:
    """The gradient of `cumprod` along a negative `dim`, for a gradient h of its result.

    >>> from autograd_gpu.ops.reduction.cumulative import cumprod_vjp
    >>> cumprod_vjp(ag.tensor([1.0, 1.0, 1.0]), ag.tensor([2.0, 0.0, 3.0]), -1)
    tensor([1., 8., 0.])
    """

    forward = in_float32(_cumprod_vjp)
    def grad_h(F, g, x, dim): return F.cumprod_jvp(g, x, dim)
    def grad_x(F, g, h, x, dim): return _vjp_derivative(F, h, g, x, dim)
    jvp, batch = _cumprod_vjp_tangent, along("dim")
    wide_rules = True


def _cumprod_jvp_tangent(F, t, change, x, dim):
    direct = None if t[0] is None else F.cumprod_jvp(t[0], x, dim)
    return direct if t[1] is None else added(direct, _jvp_derivative(F, t[1], change, x, dim))


@defop
class cumprod_jvp:
    """The tangent of `cumprod` along a negative `dim` for a tangent of x: the transpose of cumprod_vjp.

    >>> from autograd_gpu.ops.reduction.cumulative import cumprod_jvp
    >>> cumprod_jvp(ag.tensor([1.0, 1.0, 1.0]), ag.tensor([2.0, 0.0, 3.0]), -1)
    tensor([1., 2., 6.])
    """

    forward = in_float32(_cumprod_jvp)
    def grad_change(F, g, x, dim): return F.cumprod_vjp(g, x, dim)
    def grad_x(F, g, change, x, dim): return _vjp_derivative(F, g, change, x, dim)
    jvp, batch = _cumprod_jvp_tangent, along("dim")
    wide_rules = True


# ---- cumulative sums of exponentials -----------------------------------------------------------------


def _logcumsumexp(xp, x, *, dim, reverse=False):
    axis = wrap_dim(dim, x.ndim)
    if not x.ndim:
        return x + 0
    turn = key_along(from_right(axis, x.ndim), slice(None, None, -1 if reverse else None))
    return backend.accumulate(xp, "logaddexp", x[turn], dim)[turn]


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
    public = methods = no_lossy_save = True


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
    """cumsum(h * exp(x)) * exp(-y) along a negative `dim`, without overflow if x_i <= y_k for all i <= k.

    Its transpose is the same function of -y, -x with the opposite direction.

    >>> from autograd_gpu.ops.reduction.cumulative import exp_cumsum
    >>> exp_cumsum(ag.tensor([1.0, 1.0]), ag.zeros(2), ag.zeros(2), -1, False)
    tensor([1., 2.])
    """

    forward = in_float32(_exp_cumsum)
    def grad_h(F, g, x, y, dim, reverse): return F.exp_cumsum(g, -y, -x, dim, not reverse)
    def grad_x(F, g, h, x, y, dim, reverse): return h * F.exp_cumsum(g, -y, -x, dim, not reverse)
    def grad_y(F, g, out): return -g * out
    jvp, batch = _exp_cumsum_jvp, along("dim")


# ---- cumulative maxima and minima ----------------------------------------------------------------------


def _cumulative_extreme(xp, name, x, dim):
    """The cumulative maximum or minimum, and its last index; NaN propagates."""
    wrap_dim(dim, x.ndim)
    if not x.ndim:
        return xp.array(x), xp.zeros((), dtypes.int64)
    values = backend.accumulate(xp, name, x, dim)
    positions = xp.arange(x.shape[dim]).reshape((-1,) + (1,) * (-1 - from_right(dim, x.ndim)))
    met = (x == values) | (x != x) if x.dtype in dtypes.FLOATS else x == values
    return values, backend.accumulate(xp, "maximum", met * positions, dim)


@defop
class cummax:
    """(values, indices): the largest of the first 1, 2, ... elements along `dim`, and its last index.

    >>> ag.cummax(ag.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """

    def forward(xp, x, *, dim): return _cumulative_extreme(xp, "maximum", x, dim)
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True


@defop
class cummin:
    """(values, indices): the smallest of the first 1, 2, ... elements along `dim`, and its last index.

    >>> ag.cummin(ag.tensor([2.0, 1.0, 3.0]), 0).indices
    tensor([0, 1, 1])
    """

    def forward(xp, x, *, dim): return _cumulative_extreme(xp, "minimum", x, dim)
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True
