"""Softmax and log-softmax; their gradients are ops, which derivatives of every order share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...backend.cpu import numpy_ops
from ...backend.cpu.half import convert
from ...core.extend import FLOAT, RECORD, Tensor, added, along, defop, other_words, public
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, wrap_dim

MODEST = 40.0  # up to this magnitude exponentials and their sums do not overflow or underflow in float32


def exponentials(xp, x, axis):
    """exp(x - max) as a new array, its sum over `axis`, and the max; both with keepdims."""
    if not x.ndim:
        return xp.ones((), x.dtype), xp.ones((), x.dtype), x
    highest = backend.reduce(xp, "maximum" if x.shape[axis] else "add", x, axis, True)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as in PyTorch
        e = xp.subtract(x, highest)
    xp.exp(e, out=e)
    return e, backend.total(xp, e, axis, True), highest


def _out_dtype(name, x, dtype):
    """The dtype of the result."""
    out_dtype = x.dtype if dtype is None else dtypes.computing(dtype)
    if out_dtype not in dtypes.FLOATS:
        raise RuntimeError(f"{name}: dtype must be floating point, got {out_dtype}")
    return out_dtype


def _along_rows(x, dim):
    """Whether a CUDA kernel can be used: `dim` is the last dimension, or all later ones have size 1.

    Other dimensions use CuPy: moving `dim` to the end and back takes two passes, about what the kernel saves.
    """
    return x.ndim > 0 and math.prod(x.shape[wrap_dim(dim, x.ndim) + 1 :]) == 1


def _rows(x, dim):
    """x contiguous, with the shape that the kernels expect."""
    return x.astype(x.dtype, order="C", copy=False).reshape(x.shape[: wrap_dim(dim, x.ndim) + 1])


def _in_one_launch(xp, x, dim, out_dtype, **form):
    x = x if x.dtype == out_dtype else x.astype(wide(out_dtype), copy=False)
    out = xp.empty(x.shape, x.dtype)  # not a view of the result: a leaf takes over arrays only
    kernels.softmax(_rows(x, dim), _rows(out, dim), **form)
    return out.astype(out_dtype, copy=False)


def _kernel_fits(h, out, dim):
    return _along_rows(out, dim) and h.shape == out.shape and h.dtype == out.dtype


def _grad_in_one_launch(xp, h, out, dim, **form):
    dx = xp.empty(out.shape, out.dtype)
    kernels.softmax_backward(_rows(h, dim), _rows(out, dim), _rows(dx, dim), **form)
    return dx


def _few(xp, x, dim, dtype):
    """exp(x) and its sum over `dim` for few elements of moderate size, which need no maximum subtracted; else None."""
    if x.ndim != 2 or dtype is not None or not 0 < x.size <= numpy_ops.FEW or not -2 <= dim < 2:
        return None
    if not (x.item(x.argmax()) < MODEST and x.item(x.argmin()) > -MODEST and x.dtype in dtypes.FULL_FLOATS):
        return None
    e = np.exp(x)
    if dim == 0 or dim == -2:
        return e, numpy_ops.ones(x.shape[0], x.dtype).dot(e)
    return e, e.dot(numpy_ops.ones(x.shape[1], x.dtype))[:, None]


def _softmax(xp, x, *, dim, dtype=None):
    if few := _few(xp, x, dim, dtype):
        e, total = few
        return np.divide(e, total, e)
    return _softmax_of_many(xp, x, dim=dim, dtype=dtype)


def _softmax_of_many(xp, x, *, dim, dtype):
    out_dtype = _out_dtype("softmax", x, dtype)
    e, total, _ = exponentials(xp, convert(x, wide(out_dtype)), wrap_dim(dim, x.ndim))
    return convert(xp.divide(e, total, out=e), out_dtype)


def _log_softmax(xp, x, *, dim, dtype=None):
    if few := _few(xp, x, dim, dtype):
        return x - np.log(few[1])
    return _log_softmax_of_many(xp, x, dim=dim, dtype=dtype)


def _log_softmax_of_many(xp, x, *, dim, dtype):
    out_dtype = _out_dtype("log_softmax", x, dtype)
    x = convert(x, wide(out_dtype))
    e, total, highest = exponentials(xp, x, wrap_dim(dim, x.ndim))
    with np.errstate(invalid="ignore", divide="ignore"):  # the logarithm of an empty sum
        return convert(xp.subtract(x, highest + xp.log(total), out=e), out_dtype)


def _softmax_cuda(xp, x, *, dim, dtype=None):
    if not _along_rows(x, dim):
        return _softmax_of_many(xp, x, dim=dim, dtype=dtype)
    return _in_one_launch(xp, x, dim, _out_dtype("softmax", x, dtype))


def _log_softmax_cuda(xp, x, *, dim, dtype=None):
    if not _along_rows(x, dim):
        return _log_softmax_of_many(xp, x, dim=dim, dtype=dtype)
    return _in_one_launch(xp, x, dim, _out_dtype("log_softmax", x, dtype), logarithm=True)


@in_float32
def _softmax_grad(xp, h, out, *, dim):
    weighted = xp.multiply(h, out, out=xp.empty(np.broadcast_shapes(h.shape, out.shape), out.dtype))
    total = backend.total(xp, weighted, dim, True) if out.ndim else weighted
    weighted -= out * total
    return weighted


@in_float32
def _log_softmax_grad(xp, h, out, *, dim):
    total = backend.total(xp, h, dim, True) if out.ndim else h
    p = xp.exp(out, out=xp.empty(out.shape, out.dtype))
    return xp.subtract(h, p * total)


def _softmax_grad_cuda(xp, h, out, *, dim):
    fits = _kernel_fits(h, out, dim)
    return _grad_in_one_launch(xp, h, out, dim) if fits else _softmax_grad(xp, h, out, dim=dim)


def _log_softmax_grad_cuda(xp, h, out, *, dim):
    if not _kernel_fits(h, out, dim):
        return _log_softmax_grad(xp, h, out, dim=dim)
    return _grad_in_one_launch(xp, h, out, dim, logarithm=True)


def _dot(F, a, b, dim):
    return F.sum(a * b, dim, True)


def _softmax_back(F, g, out, x_dtype, dim, dtype):
    g = F.softmax_grad(g, out, from_right(dim, out.ndim))
    return g if dtype is None else F.cast(g, x_dtype)


def _softmax_jvp(F, t, out, dim, dtype):
    return F.softmax_grad(t if dtype is None else F.cast(t, out.dtype), out, from_right(dim, out.ndim))


@defop
class softmax:
    """exp(x) / sum(exp(x)) over `dim`, of x converted to `dtype` if it is not None.

    >>> ag.softmax(ag.tensor([0.0, 0.0]), 0)
    tensor([0.5, 0.5])
    """

    forward, cuda = _softmax, _softmax_cuda
    grad_x = _softmax_back
    types = FLOAT
    jvp, batch = _softmax_jvp, along("dim")
    public = "softmax", "special.softmax"
    methods = True


@in_float32
def _safe_softmax(xp, x, *, dim):
    axis = wrap_dim(dim, x.ndim)
    highest = (xp.max if x.shape[axis] else xp.sum)(x, axis=axis, keepdims=True)
    e = xp.exp(x - backend.where(xp, highest == -math.inf, x.dtype.type(0), highest))
    total = backend.total(xp, e, axis, True)
    return xp.divide(e, backend.where(xp, total == 0, x.dtype.type(1), total), out=e)


def _safe_softmax_cuda(xp, x, *, dim):
    if not _along_rows(x, dim):
        return _safe_softmax(xp, x, dim=dim)
    return _in_one_launch(xp, x, dim, x.dtype, safe=True)


@defop
class safe_softmax:
    """`softmax` that is 0 instead of NaN where all elements along `dim` are -inf: a query that attends to no key.

    >>> from autograd_gpu.ops.nn.softmax import safe_softmax
    >>> safe_softmax(ag.tensor([[0.0, 0.0], [-ag.inf, -ag.inf]]), -1)
    tensor([[0.5, 0.5],
            [0. , 0. ]])
    """

    forward, cuda = _safe_softmax, _safe_softmax_cuda
    def grad_x(F, g, out, dim): return F.softmax_grad(g, out, from_right(dim, out.ndim))
    def jvp(F, t, out, dim): return F.softmax_grad(t, out, from_right(dim, out.ndim))
    types = FLOAT
    batch = along("dim")
    torch = "softmax"


@public("softmin")
@other_words
def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(-input) / sum(exp(-input)) over `dim`, of input converted to `dtype` if it is not None.

    >>> ag.softmin(ag.tensor([0.0, 0.0]), 0)
    tensor([0.5, 0.5])
    """
    return softmax(RECORD.neg(input), dim, dtype)


def _softmax_grad_jvp(F, t, h, out, dim):
    total = None if t[0] is None else F.softmax_grad(t[0], out, dim)
    if t[1] is None:
        return total
    return added(total, t[1] * (h - _dot(F, h, out, dim)) - out * _dot(F, h, t[1], dim))


@defop
class softmax_grad:
    """out * (h - sum(h * out)) over a negative `dim`: the gradient of `softmax`.

    >>> from autograd_gpu.ops.nn.softmax import softmax_grad
    >>> softmax_grad(ag.tensor([1.0, 0.0]), ag.tensor([0.5, 0.5]), -1)
    tensor([ 0.25, -0.25])
    """

    forward, cuda = _softmax_grad, _softmax_grad_cuda
    def grad_h(F, g, out, dim): return F.softmax_grad(g, out, dim)
    def grad_out(F, g, h, out, dim): return g * (h - _dot(F, h, out, dim)) - h * _dot(F, g, out, dim)
    types, broadcasts = FLOAT, True
    jvp, batch = _softmax_grad_jvp, along("dim")
    wide_rules = True


def _log_softmax_back(F, g, out, x_dtype, dim, dtype):
    g = F.log_softmax_grad(g, out, from_right(dim, out.ndim))
    return g if dtype is None else F.cast(g, x_dtype)


def _log_softmax_jvp(F, t, out, dim, dtype):
    t = t if dtype is None else F.cast(t, out.dtype)
    return t - _dot(F, t, F.exp(out), from_right(dim, out.ndim))


@defop
class log_softmax:
    """x - log(sum(exp(x))) over `dim`, of x converted to `dtype` if it is not None.

    >>> ag.log_softmax(ag.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """

    forward, cuda = _log_softmax, _log_softmax_cuda
    grad_x = _log_softmax_back
    types = FLOAT
    jvp, batch = _log_softmax_jvp, along("dim")
    public = "log_softmax", "special.log_softmax"
    methods = True


def _log_softmax_grad_jvp(F, t, h, out, dim):
    total = None if t[0] is None else F.log_softmax_grad(t[0], out, dim)
    return total if t[1] is None else added(total, -t[1] * F.exp(out) * F.sum(h, dim, True))


@defop
class log_softmax_grad:
    """h - exp(out) * sum(h) over a negative `dim`: the gradient of `log_softmax`.

    >>> from autograd_gpu.ops.nn.softmax import log_softmax_grad
    >>> log_softmax_grad(ag.tensor([1.0, 0.0]), ag.tensor([-0.6931472, -0.6931472]), -1)
    tensor([ 0.5, -0.5])
    """

    forward, cuda = _log_softmax_grad, _log_softmax_grad_cuda
    def grad_h(F, g, out, dim): return g - F.sum(g * F.exp(out), dim, True)
    def grad_out(F, g, h, out, dim): return -g * F.exp(out) * F.sum(h, dim, True)
    types, broadcasts = FLOAT, True
    jvp, batch = _log_softmax_grad_jvp, along("dim")
    wide_rules = True
