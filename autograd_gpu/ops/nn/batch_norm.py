"""Normalisation by channel, dimension 1: batch norm, instance norm and group norm.

Note [Batch norm]
`native_batch_norm` also returns the mean and the variance of each channel, which update the running
statistics. They are differentiable outputs, so that the rule can be differentiated again without further formulas. The
gradients of weight and bias are the two sums that the gradient of x needs, so one joint rule computes all three.
"""

from __future__ import annotations

import math

from ... import backend
from ...backend.arrays.dtypes import wide
from ...core.extend import FLOAT, RECORD, Tensor, added, defop, example, holds_recorded, is_batched, moved, public
from ...errors import ArgumentError
from ...modes import no_grad
from ..inplace.write import add_, mul_
from ..shape.reshape import reshape
from .layer_norm import kept_half, native_layer_norm


def _check_channels(name: str, parameter: Tensor | None, channels: int) -> None:
    if parameter is not None and parameter.shape != (channels,):
        raise RuntimeError(f"{name} should contain {channels} elements not {parameter.shape[0]}"
                           if len(parameter.shape) == 1 else
                           f"{name} should be a vector of {channels} elements, not {list(parameter.shape)}")


def _along_channels(x, ndim):
    """A vector with an element per channel as (C, 1, ..., 1), which broadcasts with (N, C, ...)."""
    return x if ndim == 2 else x.reshape((-1,) + (1,) * (ndim - 2))


# ---- batch norm --------------------------------------------------------------------------------------


def _non_channel_dims(ndim):
    """All dimensions except the channels, counted from the right."""
    return (-ndim, *range(2 - ndim, 0))


def _check_batch_norm(x, weight, bias):
    if x.ndim < 2:
        raise IndexError(f"batch_norm: expected an input (N, C, ...) of two dimensions or more, got {x.ndim}")
    _check_channels("weight", weight, x.shape[1])
    _check_channels("bias", bias, x.shape[1])


def _batch_norm(xp, x, weight, bias, eps):
    _check_batch_norm(x, weight, bias)
    channels, dtype, axes = x.shape[1], x.dtype, _non_channel_dims(x.ndim)
    n = x.size // channels if x.size else 1
    x = x.astype(wide(dtype), copy=False)
    mean = backend.total(xp, x, axes) / n
    out = xp.subtract(x, _along_channels(mean, x.ndim), out=backend.empty(xp, x.shape, x.dtype))
    var = backend.total(xp, out * out, axes) / n
    scale = 1 / xp.sqrt(var + eps)
    out *= _along_channels(scale if weight is None else scale * weight, x.ndim)
    if bias is not None:
        out += _along_channels(bias, x.ndim)
    return out.astype(dtype, copy=False), mean, var  # a variance in half precision would overflow


def _cast(F, x, dtype):
    return x if x is None or x.dtype == dtype else F.cast(x, dtype)


def _spread(F, vector, ndim):
    return vector if ndim == 2 else F.reshape(vector, (-1,) + (1,) * (ndim - 2))


def _per_channel(x):
    """How many elements of x each channel has, at least 1."""
    return math.prod(x.shape) // (x.shape[1] or 1) or 1


def _batch_norm_back(F, g, need, x, weight, mean, var, eps):
    """For x: rstd * (h - mean(h) - normal * mean(h * normal)) with h = g * weight; see Note [Batch norm]."""
    dtype, axes, n = x.dtype, _non_channel_dims(x.ndim), _per_channel(x)
    x, weight, g_out, g_mean, g_var = [_cast(F, value, mean.dtype) for value in (x, weight, *g)]

    def spread(vector):
        return _spread(F, vector, x.ndim)

    rstd, away = F.rsqrt(var + eps), x - spread(mean)
    grad_x = grad_weight = grad_bias = None
    if g_out is not None:
        normal = away * spread(rstd)
        grad_bias, grad_weight = F.sum(g_out, axes), F.sum(g_out * normal, axes)
        if need[0]:
            inner = g_out - spread(grad_bias / n) - normal * spread(grad_weight / n)
            grad_x = inner * spread(rstd if weight is None else rstd * weight)
    if need[0] and g_mean is not None:
        grad_x = added(grad_x, F.expand(spread(g_mean / n), x.shape))
    if need[0] and g_var is not None:
        grad_x = added(grad_x, away * spread(g_var * (2 / n)))
    grads = grad_x, grad_weight if need[1] else None, grad_bias if need[2] else None
    return tuple([_cast(F, value, dtype) for value in grads])


def _batch_norm_jvp(F, t, x, weight, mean, var, eps):
    """For x: weight * rstd * (t - mean(t) - normal * mean(t * normal))."""
    dtype, axes, n, std = x.dtype, _non_channel_dims(x.ndim), _per_channel(x), F.sqrt(var + eps)
    x, weight, *t = [_cast(F, value, mean.dtype) for value in (x, weight, *t)]
    out = of_mean = of_var = None

    def spread(vector):
        return _spread(F, vector, x.ndim)

    normal = (x - spread(mean)) / spread(std)
    if t[0] is not None:
        of_mean, share = F.sum(t[0], axes) / n, F.sum(t[0] * normal, axes) / n
        of_var = share * std * 2
        out = (t[0] - spread(of_mean) - normal * spread(share)) * spread(1 / std if weight is None else weight / std)
    if t[1] is not None:
        out = added(out, normal * spread(t[1]))
    if t[2] is not None:
        out = added(out, spread(t[2]))
    return _cast(F, out, dtype), of_mean, of_var


def _batch_batch_norm(F, n, batched, x, weight, bias, *, eps):
    """The batch dimension is folded into the channels."""
    _check_batch_norm(*(v if v is None else example(v, b) for v, b in zip((x, weight, bias), batched, strict=True)))
    if not batched[0]:
        return _batch_of_affine(F, n, batched, x, weight, bias, eps)
    channels = x.shape[2]

    def joined(vector, is_batched):
        if vector is None:
            return None
        return F.reshape(vector if is_batched else F.expand(vector, (n, channels)), (n * channels,))

    folded = F.reshape(moved(F, x, 0, 1), (x.shape[1], n * channels, *x.shape[3:]))
    out, mean, var = F.native_batch_norm(folded, joined(weight, batched[1]), joined(bias, batched[2]), eps)
    out = moved(F, F.reshape(out, (x.shape[1], n, channels, *x.shape[3:])), 1, 0)
    return out, F.reshape(mean, (n, channels)), F.reshape(var, (n, channels))


def _batch_of_affine(F, n, batched, x, weight, bias, eps):
    """One input for a batch of weights or biases: it is normalised once."""
    out, mean, var = F.native_batch_norm(x, None, None, eps)
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    for vector, of_examples, combine in ((weight, batched[1], F.mul), (bias, batched[2], F.add)):
        if vector is not None:
            out = combine(out, F.reshape(vector, (n, *shape) if of_examples else shape))
    return out, F.expand(mean, (n, *mean.shape)), F.expand(var, (n, *var.shape))


@defop
class native_batch_norm:
    """(x - mean) / sqrt(var + eps) * weight + bias for x (N, C, ...); also each channel's mean and (biased) variance.

    Of half types these two are float32.

    >>> from autograd_gpu.ops.nn.batch_norm import native_batch_norm
    >>> native_batch_norm(ag.tensor([[1.0], [3.0]]), None, None, eps=0.0).var
    tensor([1.])
    """

    def forward(xp, x, weight=None, bias=None, *, eps=1e-5): return _batch_norm(xp, x, weight, bias, eps)
    grads = _batch_norm_back
    outputs, types = ("out", "mean", "var"), FLOAT
    no_lossy_save = "mean", "var"  # the gradients of a row or a channel depend on it
    jvp, batch = _batch_norm_jvp, _batch_batch_norm


@public("batch_norm", "nn.functional.batch_norm")
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(input - mean) / sqrt(var + eps) * weight + bias for each channel of an input (N, C, ...).

    In training, mean and variance are those of the batch, and the running statistics are updated in place as (1 -
    momentum) * running + momentum * batch (the variance with Bessel's correction); else the running statistics are
    used. A half input with float32 parameters gives a half result. ValueError for a batch of one value per channel, or
    if only one of the running statistics is passed; RuntimeError if they are missing or have another size. An empty
    input does not need them, and updates nothing.

    >>> ag.batch_norm(ag.tensor([[1.0], [3.0]]), None, None, training=True, eps=0.0)
    tensor([[-1.],
            [ 1.]])
    """
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("running_mean and running_var must either both be None or neither be None")
    n = math.prod(input.shape[:1] + input.shape[2:])
    if training and n == 1:
        raise ArgumentError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    if input.ndim > 1 and not input.numel():
        return kept_half(_empty_result(input, weight, bias), input)
    channels = input.shape[1] if input.ndim > 1 else 1
    _check_channels("running_mean", running_mean, channels)
    _check_channels("running_var", running_var, channels)
    if not training:
        if eps < 0.0:
            raise ArgumentError(f"batch_norm eps must be non-negative, but got {eps}")
        return kept_half(_by_running(input, running_mean, running_var, weight, bias, eps), input)
    if eps <= 0.0 and running_var is not None:
        raise ArgumentError(f"batch_norm eps must be positive during training, but got {eps}")
    out, mean, var = native_batch_norm(input, weight, bias, eps)
    if n:  # an empty batch has no mean
        _update_running(running_mean, mean, momentum)
        _update_running(running_var, var, momentum, n / (n - 1))
    return kept_half(out, input)


def _empty_result(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """An empty result with zero gradients for x and for parameters of any size."""
    out = RECORD.clone(x) if weight is None else RECORD.mul(x, RECORD.sum(weight))
    return out if bias is None else RECORD.add(out, RECORD.sum(bias))


def _update_running(running: Tensor | None, value: Tensor, momentum: float, correction: float = 1.0) -> None:
    if running is not None:
        if is_batched(value) and not is_batched(running):
            raise RuntimeError("Batch norm got a batched tensor as input while the running_mean or running_var, which "
                               "will be updated in place, were not batched; use track_running_stats=False, or map over "
                               "the buffers, too")
        if holds_recorded(value):  # the buffer may be from outside of the level
            value = value.detach()
        with no_grad():
            add_(mul_(running, 1 - momentum), value, alpha=momentum * correction)


def _by_running(
    x: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """x * scale + shift, with scale and shift of each channel from the running statistics and the parameters."""
    for name, running in (("running_mean", mean), ("running_var", var)):
        if running is None:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    channels = x.shape[1] if x.ndim > 1 else 1
    _check_channels("weight", weight, channels)
    _check_channels("bias", bias, channels)
    scale = RECORD.rsqrt(RECORD.add(var, eps))
    scale = scale if weight is None else RECORD.mul(scale, weight)
    shift = RECORD.neg(RECORD.mul(mean, scale))
    shift = shift if bias is None else RECORD.add(shift, bias)
    return RECORD.addcmul(_channels_of(shift, x.ndim), x, _channels_of(scale, x.ndim))


def _channels_of(vector: Tensor, ndim: int) -> Tensor:
    return vector if ndim == 2 else reshape(vector, (-1,) + (1,) * (ndim - 2))


# ---- groups ------------------------------------------------------------------------------------------


def _by_group(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Normalises each group of channels over the group and all positions, then applies weight and bias by channel."""
    count, size = x.shape[0] * groups, math.prod(x.shape[1:]) // (groups or 1)
    rows = reshape(x, (count, size))
    out = reshape(native_layer_norm(rows, None, None, shape=(size,), eps=eps)[0], x.shape)
    if weight is not None and bias is not None:
        return RECORD.addcmul(_channels_of(bias, x.ndim), out, _channels_of(weight, x.ndim))
    if weight is not None:
        return RECORD.mul(out, _channels_of(weight, x.ndim))
    return out if bias is None else RECORD.add(out, _channels_of(bias, x.ndim))


@public("group_norm", "nn.functional.group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(input - mean) / sqrt(var + eps) over each of `num_groups` groups of channels; weight and bias by channel.

    input (N, C, ...), with C divisible by `num_groups`, or RuntimeError; ValueError for one value per group.

    >>> ag.group_norm(ag.tensor([[1.0, 3.0, 2.0, 8.0]]), 2, eps=0.0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(input.shape)} and num_groups={num_groups}")
    if math.prod(input.shape) == input.shape[0] * num_groups == num_groups:
        raise ArgumentError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != (channels,):
            raise RuntimeError(f"Expected {name} to be a vector of size equal to the number of channels in input, but "
                               f"got {name} of shape {list(parameter.shape)} and input of shape {list(input.shape)}")
    return kept_half(_by_group(input, num_groups, weight, bias, eps), input)


@public("instance_norm", "nn.functional.instance_norm")
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(input - mean) / sqrt(var + eps) over the positions of each channel of each sample; weight and bias by channel.

    input (N, C, L, ...). The running mean and variance, if any, are updated in place with the average over the samples
    as in `batch_norm`; with `use_input_stats=False` they are used instead. ValueError for one position.

    >>> ag.instance_norm(ag.tensor([[[1.0, 3.0], [2.0, 8.0]]]), eps=0.0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("running_mean and running_var must either both be None or neither be None")
    if not use_input_stats:
        if running_mean is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return kept_half(_by_running(input, running_mean, running_var, weight, bias, eps), input)
    positions = math.prod(input.shape[2:])
    if positions == 1:
        raise ArgumentError(f"Expected more than 1 spatial element when training, got input size {list(input.shape)}")
    channels = input.shape[1]
    for name, vector in (("weight", weight), ("bias", bias), ("running_mean", running_mean)):
        _check_channels(name, vector, channels)
    if running_mean is not None and running_var is not None and input.numel():
        with no_grad():
            axes = tuple(range(2, input.ndim))
            _update_running(running_mean, RECORD.mean(input, _non_channel_dims(input.ndim)), momentum)
            _update_running(running_var, RECORD.mean(RECORD.var(input, axes), 0), momentum)
    return kept_half(_by_group(input, channels, weight, bias, eps), input)
