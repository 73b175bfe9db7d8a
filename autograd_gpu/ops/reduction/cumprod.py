"""Products that grow along a dimension.

Note [Zeros in a product]
Element i of the vector-Jacobian product is the sum over k >= i of g_k times the first k factors without x_i: the sum of
g_k * out_k from i on, divided by x_i. Where x_i is the first zero it is that sum with x_i taken for 1, and what
follows another zero is 0. So two cumulative products answer for any x, in time linear in the number of factors.
"""

from __future__ import annotations

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import wide
from ...backend.cpu import scans
from ...core.extend import added, along, defop
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, key_along, wrap_dim
from .cumulative import result_dtype, stays_float


def _cumprod(xp, x, *, dim, dtype=None):
    axis, wanted = wrap_dim(dim, x.ndim), result_dtype(x, dtype)
    if not x.ndim:
        return x.astype(wanted)
    y = x.astype(wide(wanted), copy=False)
    out = scans.accumulate(np.multiply, y, axis) if xp is np else xp.cumprod(y, axis=axis)
    return out.astype(wanted, copy=False)


def _cumprod_back(F, g, x, x_dtype, dim, dtype):
    if dtype is not None:
        g = F.cast(g, x_dtype)
    return F.cumprod_vjp(g, x, from_right(dim, x.ndim)) if x.ndim else g


def _cumprod_push(F, t, x, out, dim, dtype):
    if dtype is not None:
        t, x = F.cast(t, out.dtype), F.cast(x, out.dtype)
    return F.cumprod_jvp(t, x, from_right(dim, x.ndim)) if x.ndim else t


@defop
class cumprod:
    """The products of the first 1, 2, ... elements along `dim`; integers and bools multiply to int64.

    The gradient is right where elements are 0, too; differentiating it once more takes memory quadratic in the number
    of factors.

    >>> ag.cumprod(ag.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """

    forward = _cumprod
    grad_x = _cumprod_back
    def differentiable(dim, dtype): return stays_float(dim, None, dtype)
    jvp, batch = _cumprod_push, along("dim")
    public = methods = inplace = True


def _parts(xp, x, dim):
    """Note [Zeros in a product]: where the first zeros are, x without zeros, both cumulative products."""
    zero = x == 0
    if xp is np and not np.count_nonzero(zero):
        out = scans.accumulate(np.multiply, x, dim)
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
    """The vectors along `dim`, each as a matrix with that vector in every row."""
    last, n = F.unsqueeze(F.transpose(y, dim, -1), -2), y.shape[dim]
    return F.expand(last, (*last.shape[:-2], n, n))


def _without_one(F, x, dim):
    """Matrices whose row m is x with x_m taken for 1, and where that is."""
    square = _rows(F, x, dim)
    diagonal = F.tril(F.triu(F.constant_like(square, 1.0))) != 0
    return F.where(diagonal, 1.0, square), diagonal


def _second(F, g, t, x, dim):
    """The derivative by x of <t, cumprod_vjp(g, x)>, which is also that of cumprod_vjp(g, x) in the direction t."""
    others, diagonal = _without_one(F, x, dim)
    parts = F.cumprod_vjp(F.triu(_rows(F, g, dim)), others, -1)
    return F.transpose(F.sum(F.where(diagonal, 0.0, _rows(F, t, dim)) * parts, -1), dim, -1)


def _bend(F, t, change, x, dim):
    """The derivative of cumprod_jvp(change, x) in the direction t of x: change_m times that of x without x_m."""
    others, diagonal = _without_one(F, x, dim)
    parts = F.cumprod_jvp(F.where(diagonal, 0.0, _rows(F, t, dim)), others, -1)
    columns = F.unsqueeze(F.transpose(change, dim, -1), -1)
    return F.transpose(F.sum(F.triu(parts) * columns, -2), dim, -1)


def _vjp_push(F, t, h, x, dim):
    direct = None if t[0] is None else F.cumprod_vjp(t[0], x, dim)
    return direct if t[1] is None else added(direct, _second(F, h, t[1], x, dim))


@defop
class cumprod_vjp:
    """The gradient of `cumprod` along a negative `dim`, for a gradient h of its result.

    >>> from autograd_gpu.ops.reduction.cumprod import cumprod_vjp
    >>> cumprod_vjp(ag.tensor([1.0, 1.0, 1.0]), ag.tensor([2.0, 0.0, 3.0]), -1)
    tensor([1., 8., 0.])
    """

    forward = in_float32(_cumprod_vjp)
    def grad_h(F, g, x, dim): return F.cumprod_jvp(g, x, dim)
    def grad_x(F, g, h, x, dim): return _second(F, h, g, x, dim)
    jvp, batch = _vjp_push, along("dim")


def _jvp_push(F, t, change, x, dim):
    direct = None if t[0] is None else F.cumprod_jvp(t[0], x, dim)
    return direct if t[1] is None else added(direct, _bend(F, t[1], change, x, dim))


@defop
class cumprod_jvp:
    """The change of `cumprod` along a negative `dim` for a change of x: the transpose of cumprod_vjp.

    >>> from autograd_gpu.ops.reduction.cumprod import cumprod_jvp
    >>> cumprod_jvp(ag.tensor([1.0, 1.0, 1.0]), ag.tensor([2.0, 0.0, 3.0]), -1)
    tensor([1., 2., 6.])
    """

    forward = in_float32(_cumprod_jvp)
    def grad_change(F, g, x, dim): return F.cumprod_vjp(g, x, dim)
    def grad_x(F, g, change, x, dim): return _second(F, g, change, x, dim)
    jvp, batch = _jvp_push, along("dim")
