"""Normalisation over the last dimensions: layer norm and RMS norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, HALF, get_default_dtype, wide
from ...backend.cpu.half import convert
from ...core.extend import FLOAT, RECORD, Tensor, aligned, as_number, defop, example, expanded, public


def _axes(x, shape):
    """The last dimensions, those of `shape`, after PyTorch's checks."""
    n = len(shape)
    if not n:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
                           "element, but got normalized_shape = []")
    if x.shape[x.ndim - n :] != shape or x.ndim < n:
        raise RuntimeError(f"Given normalized_shape={list(shape)}, expected input with shape "
                           f"[*, {', '.join(map(str, shape))}], but got input of size{list(x.shape)}")
    return tuple(range(-n, 0))


def _check_parameter(name, parameter, shape):
    if parameter is not None and parameter.shape != shape:
        raise RuntimeError(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                           f"{list(parameter.shape)} and normalized_shape = {list(shape)}")


def _layer_norm_cuda(xp, x, weight=None, bias=None, *, shape, eps=1e-5):
    if not x.size:
        return _layer_norm(xp, x, weight, bias, shape=shape, eps=eps)
    _axes(x, shape)
    _check_parameter("weight", weight, shape)
    _check_parameter("bias", bias, shape)
    x, weight, bias = map(kernels.contiguous, (x, weight, bias))
    return kernels.layer_norm(x, weight, bias, eps, len(shape))


def _layer_norm(xp, x, weight=None, bias=None, *, shape, eps=1e-5):
    """The result, and the statistics in the dtype of the sums."""
    axes, dtype = _axes(x, shape), x.dtype
    _check_parameter("weight", weight, shape)
    _check_parameter("bias", bias, shape)
    n = math.prod(shape) or 1
    x = convert(x, wide(dtype))
    mean = backend.total(xp, x, axes, True) / n
    out = x - mean
    rstd = 1 / xp.sqrt(backend.sum_of_squares(xp, out, axes) / n + eps)
    out *= rstd
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return convert(out, dtype), mean, rstd


# ---- gradients ---------------------------------------------------------------------------------------


def _as(F, dtype, x):
    return x if x is None or x.dtype == dtype else F.cast(x, dtype)


def _widened(F, *values):
    """Half types as float32, the dtype of the statistics."""
    return [None if x is None else _as(F, wide(x.dtype), x) for x in values]


def _grad_x(F, g, x, weight, mean, rstd, shape):
    """The gradient for x. mean and rstd are differentiable outputs, so it can be differentiated again."""
    dtype, (_, g_mean, g_rstd) = x.dtype, g
    g_out, x, weight = _widened(F, g[0], x, weight)
    axes, n = tuple(range(-len(shape), 0)), math.prod(shape) or 1
    normal = (x - mean) * rstd
    parts = []
    if g_out is not None:
        h = g_out if weight is None else g_out * weight
        parts.append(rstd * (h - F.sum(h, axes, True) / n - normal * (F.sum(h * normal, axes, True) / n)))
    if g_rstd is not None:
        parts.append(normal * (rstd * rstd * g_rstd / -n))
    total = sum(parts[1:], parts[0]) if parts else F.constant_like(x, 0.0)
    return _as(F, dtype, total if g_mean is None else total + g_mean / n)


def _over_rows(F, g, shape):
    """The sum over the dimensions before those of `shape`."""
    lead = g.ndim - len(shape)
    return F.sum(g, tuple(range(-g.ndim, -len(shape)))) if lead else g


def _grad_weight(F, g, x, mean, rstd, shape):
    if g[0] is None:
        return None
    g_out, wider = _widened(F, g[0], x)
    return _as(F, x.dtype, _over_rows(F, g_out * ((wider - mean) * rstd), shape))


def _grad_bias(F, g, shape):
    return None if g[0] is None else _over_rows(F, g[0], shape)


def _fits_one_pass(g, x):
    """Whether there is more to compute than the gradient of the bias, and the statistics have no gradients."""
    return x is not None and x.size and g[0] is not None and all(other is None for other in g[1:])


def _fused(F, g, need, x, weight, mean, rstd, shape):
    """All gradients in one pass; with mean None those of an RMS norm. A single gradient is left to its rule, since only
    several share products."""
    fits = sum(need) > 1 and _fits_one_pass(g, x)
    return _gradients(need, g[0], x, weight, mean, rstd, shape) if fits else None


def _fused_cuda(F, g, need, x, weight, mean, rstd, shape):
    """The same from one kernel."""
    if not _fits_one_pass(g, x):
        return None
    g_out, x, weight = map(kernels.contiguous, (g[0], x, weight))
    if mean is None:
        return kernels.rms_norm_backward(g_out, x, weight, rstd, need, len(shape))
    return kernels.layer_norm_backward(g_out, x, weight, mean, rstd, need, len(shape))


def _gradients(need, g, x, weight, mean, rstd, shape):
    """The formulas of the rules on NumPy arrays, with each product and each sum computed once."""
    dtype, n, axes, above = x.dtype, math.prod(shape), tuple(range(-len(shape), 0)), tuple(range(x.ndim - len(shape)))
    g, normal = g.astype(wide(dtype), copy=False), x * rstd if mean is None else (x - mean) * rstd
    product = g * normal
    summands = zip((product, g), need[1:], strict=False)
    sums = [backend.total(np, value, above) if needed else None for value, needed in summands]
    dx = None
    if need[0]:
        if weight is not None:
            product *= weight
        normal *= backend.total(np, product, axes, True) / n
        h = g if weight is None else np.multiply(g, weight, out=product)
        dx = np.subtract(h, normal, out=normal)
        if mean is not None:
            dx -= backend.total(np, h, axes, True) / n
        dx *= rstd
    return [None if value is None else value.astype(dtype, copy=False) for value in (dx, *sums)]


def _through_scale(F, t, normal, rstd, shape):
    """The tangents of `normal` and `rstd`, from the tangent t of what was divided by its root mean square."""
    shared = F.sum(t * normal, tuple(range(-len(shape), 0)), True) / (math.prod(shape) or 1)
    return rstd * (t - normal * shared), -rstd * (rstd * shared)


def _scaled_tangent(normal, weight, t_normal, t_weight, t_bias=None):
    parts = [t_normal if t_normal is None or weight is None else t_normal * weight,
             None if t_weight is None else normal * t_weight, t_bias]
    parts = [part for part in parts if part is not None]
    return sum(parts[1:], parts[0])


def _layer_norm_jvp(F, t, x, weight, mean, rstd, shape):
    dtype = x.dtype
    x, weight, t_x, t_weight, t_bias = _widened(F, x, weight, *t)
    normal, t_normal, t_mean, t_rstd = (x - mean) * rstd, None, None, None
    if t_x is not None:
        t_mean = F.sum(t_x, tuple(range(-len(shape), 0)), True) / (math.prod(shape) or 1)
        t_normal, t_rstd = _through_scale(F, t_x - t_mean, normal, rstd, shape)
    return _as(F, dtype, _scaled_tangent(normal, weight, t_normal, t_weight, t_bias)), t_mean, t_rstd


def _batched_norm(F, run, n, batched, x, weight, bias, shape):
    """run(weight, bias), a normalisation, for a batch of n; batched weights and biases are applied after it."""
    _axes(example(x, batched[0]), shape)
    for name, parameter, b in (("weight", weight, batched[1]), ("bias", bias, batched[2])):
        if parameter is not None:
            _check_parameter(name, example(parameter, b), shape)
    own, several = batched[1] or batched[2], batched[0]
    out, *statistics = run(None, None) if own else run(weight, bias)
    for combine, parameter, b in ((F.mul, weight, batched[1]), (F.add, bias, batched[2])):
        if own and parameter is not None:
            out, several = combine(*aligned(F, (several, b), (out, parameter))), several or b
    return out, *expanded(F, n, batched[:1] * len(statistics), statistics)


@defop
class native_layer_norm:
    """(x - mean) * rstd * weight + bias over the last dimensions, those of `shape`; also mean and rstd.

    rstd is 1 / sqrt(variance + eps); weight and bias may be None. mean and rstd of half types are float32.

    >>> from autograd_gpu.ops.nn.layer_norm import native_layer_norm
    >>> out, mean, rstd = native_layer_norm(ag.tensor([1.0, 3.0]), None, None, shape=(2,), eps=0.0)
    >>> mean, rstd
    (tensor([2.]), tensor([1.]))
    """

    forward, cuda = _layer_norm, _layer_norm_cuda
    grad_x = _grad_x
    grad_weight = _grad_weight
    grad_bias = _grad_bias
    fused, fused_cuda = _fused, _fused_cuda
    jvp = _layer_norm_jvp
    def batch(F, n, batched, x, weight, bias, *, shape, eps):
        def run(weight, bias): return F.native_layer_norm(x, weight, bias, shape=shape, eps=eps)
        return _batched_norm(F, run, n, batched, x, weight, bias, shape)
    outputs, types = ("out", "mean", "rstd"), FLOAT
    no_lossy_save = "mean", "rstd"  # the gradients of a row or a channel depend on it


@public("layer_norm", "nn.functional.layer_norm")
def layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(input - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, those of `normalized_shape`.

    A half input with float32 parameters gives a half result, rounded once.

    >>> ag.layer_norm(ag.tensor([[1.0, 3.0], [2.0, 8.0]]), (2,), eps=0.0)
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    return kept_half(native_layer_norm(input, weight, bias, shape=_as_shape(normalized_shape), eps=eps)[0], input)


def kept_half(out: Tensor, x: Tensor) -> Tensor:
    """`out` in the dtype of a half x, which was normalised in float32 if the parameters are float32."""
    return RECORD.cast(out, dtype=x.dtype) if x.dtype in HALF and out.dtype != x.dtype else out


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)


# ---- RMS norm ----------------------------------------------------------------------------------------


def _rms_cuda(xp, x, weight=None, *, shape, eps):
    if not x.size:
        return _rms(xp, x, weight, shape=shape, eps=eps)
    _axes(x, shape)
    _check_parameter("weight", weight, shape)
    return kernels.rms_norm(kernels.contiguous(x), kernels.contiguous(weight), eps, len(shape))


def _rms(xp, x, weight=None, *, shape, eps):
    axes, dtype = _axes(x, shape), x.dtype
    _check_parameter("weight", weight, shape)
    x = x.astype(wide(dtype), copy=False)
    rstd = 1 / xp.sqrt(backend.sum_of_squares(xp, x, axes) / (math.prod(shape) or 1) + eps)
    out = x * rstd
    if weight is not None:
        out *= weight
    return out.astype(dtype, copy=False), rstd


def _rms_grad_x(F, g, x, weight, rstd, shape):
    dtype, (_, g_rstd) = x.dtype, g
    g_out, x, weight = _widened(F, g[0], x, weight)
    axes, n = tuple(range(-len(shape), 0)), math.prod(shape) or 1
    normal, parts = x * rstd, []
    if g_out is not None:
        h = g_out if weight is None else g_out * weight
        parts.append(rstd * (h - normal * (F.sum(h * normal, axes, True) / n)))
    if g_rstd is not None:
        parts.append(normal * (rstd * rstd * g_rstd / -n))
    return _as(F, dtype, sum(parts[1:], parts[0]))


def _rms_grad_weight(F, g, x, rstd, shape):
    if g[0] is None:
        return None
    g_out, wider = _widened(F, g[0], x)
    return _as(F, x.dtype, _over_rows(F, g_out * (wider * rstd), shape))


def _rms_fused(F, g, need, x, weight, rstd, shape):
    return _fused(F, g, need, x, weight, None, rstd, shape)


def _rms_fused_cuda(F, g, need, x, weight, rstd, shape):
    return _fused_cuda(F, g, need, x, weight, None, rstd, shape)


def _rms_jvp(F, t, x, weight, rstd, shape):
    dtype = x.dtype
    x, weight, t_x, t_weight = _widened(F, x, weight, *t)
    normal, t_normal, t_rstd = x * rstd, None, None
    if t_x is not None:
        t_normal, t_rstd = _through_scale(F, t_x, normal, rstd, shape)
    return _as(F, dtype, _scaled_tangent(normal, weight, t_normal, t_weight)), t_rstd


@defop
class native_rms_norm:
    """x * rstd * weight over the last dimensions, those of `shape`; also rstd = 1 / sqrt(mean(x * x) + eps).

    >>> from autograd_gpu.ops.nn.layer_norm import native_rms_norm
    >>> native_rms_norm(ag.tensor([1.0, 7.0]), None, shape=(2,), eps=0.0)
    native_rms_norm_result(out=tensor([0.2, 1.4]), rstd=tensor([0.2]))
    """

    forward, cuda = _rms, _rms_cuda
    grad_x = _rms_grad_x
    grad_weight = _rms_grad_weight
    fused, fused_cuda = _rms_fused, _rms_fused_cuda
    jvp = _rms_jvp
    def batch(F, n, batched, x, weight, *, shape, eps):
        def run(weight, bias): return F.native_rms_norm(x, weight, shape=shape, eps=eps)
        return _batched_norm(F, run, n, (*batched, False), x, weight, None, shape)
    outputs, types = ("out", "rstd"), FLOAT
    no_lossy_save = ("rstd",)  # the gradients of a row or a channel depend on it


@public("rms_norm", "nn.functional.rms_norm")
def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """input / sqrt(mean(input ** 2) + eps) * weight over the last dimensions, those of `normalized_shape`.

    `eps` is by default the machine epsilon of input's dtype, for half types that of float32. A half input with a
    float32 weight gives a half result. RuntimeError if the shape of input does not end in `normalized_shape` or
    `weight` has another shape.

    >>> ag.rms_norm(ag.tensor([[1.0, 7.0]]), (2,), eps=0.0)
    tensor([[0.2, 1.4]])
    """
    if eps is None:
        eps = float(np.finfo(wide(input.dtype) if input.dtype in FLOATS else get_default_dtype()).eps)
    eps = as_number("rms_norm", "eps", eps)
    return kept_half(native_rms_norm(input, weight, shape=_as_shape(normalized_shape), eps=eps)[0], input)
