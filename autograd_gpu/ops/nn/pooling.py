"""Pooling over windows of the last dimension of (N, C, L) or (C, L)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import wide
from ...core.extend import LEADING, LINEAR, RECORD, Tensor, defop, public, wrap

FEW = 16  # windows of up to FEW elements are added element by element: a sum for each window takes longer

# ---- windows -----------------------------------------------------------------------------------------


def _check_rank(name: str, x: Tensor) -> None:
    if x.ndim not in (2, 3):
        raise RuntimeError(f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
                           f"but got:{list(x.shape)}")


def _single(value: Any) -> int:
    """A size, also from a tuple of one."""
    return value[0] if isinstance(value, (tuple, list)) else value


def _windows(name: str, length: int, size: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """The number of windows, by PyTorch's rule, and PyTorch's errors."""
    if size < 1 or stride < 1 or dilation < 1 or padding < 0:
        raise RuntimeError(f"{name}: kernel_size, stride and dilation must be greater than zero and padding "
                           f"non-negative, but got {size}, {stride}, {dilation} and {padding}")
    if padding > size // 2:
        raise RuntimeError(f"{name}() padding should be at most half of kernel size, but got padding={padding} and "
                           f"kernel_size={size}")
    room = length + 2 * padding - dilation * (size - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1  # the last window would start in the padding on the right
    if count < 1:
        raise RuntimeError(f"{name}() Invalid computed output size: {count}; the window of {size} is longer than the "
                           f"input of {length}")
    return count


# ---- averages ----------------------------------------------------------------------------------------


def _inside(j: int, length: int, stride: int, padding: int, count: int) -> tuple[slice, slice]:
    """The windows whose element j lies in the input, and the positions of these elements."""
    low = max(0, -(-(padding - j) // stride))
    high = min(count, -(-(length + padding - j) // stride))
    first = low * stride - padding + j
    return slice(low, high), slice(first, first + max(high - low, 0) * stride, stride)


def _window_sum(xp, x, *, size, stride, padding, count):
    dtype = x.dtype
    if stride == size > FEW and not padding and count * size == x.shape[-1]:
        rows = x.reshape(*x.shape[:-1], count, size)
        return xp.sum(rows, axis=-1, dtype=wide(dtype)).astype(dtype, copy=False)
    out = xp.zeros((*x.shape[:-1], count), wide(dtype))
    for j in range(size):
        windows, positions = _inside(j, x.shape[-1], stride, padding, count)
        out[..., windows] += x[..., positions]
    return out.astype(dtype, copy=False)


def _window_spread(xp, g, *, size, stride, padding, length):
    out = xp.zeros((*g.shape[:-1], length), wide(g.dtype))
    for j in range(size):
        windows, positions = _inside(j, length, stride, padding, g.shape[-1])
        out[..., positions] += g[..., windows]
    return out.astype(g.dtype, copy=False)


@defop
class window_sum:
    """The sums of `count` windows of x, one every `stride` elements, from `padding` elements before the first on.

    >>> from autograd_gpu.ops.nn.pooling import window_sum
    >>> window_sum(ag.tensor([1.0, 2.0, 3.0]), size=2, stride=1, padding=0, count=2)
    tensor([3., 5.])
    """

    forward = _window_sum
    def grad_x(F, g, x_shape, size, stride, padding):
        return F.window_spread(g, size=size, stride=stride, padding=padding, length=x_shape[-1])
    jvp, batch = LINEAR, LEADING


@defop
class window_spread:
    """Adds g of each window to all of its elements: the transpose of `window_sum`.

    >>> from autograd_gpu.ops.nn.pooling import window_spread
    >>> window_spread(ag.tensor([1.0, 2.0]), size=2, stride=1, padding=0, length=3)
    tensor([1., 3., 2.])
    """

    forward = _window_spread
    def grad_g(F, g, g_shape, size, stride, padding):
        return F.window_sum(g, size=size, stride=stride, padding=padding, count=g_shape[-1])
    jvp, batch = LINEAR, LEADING


@public("avg_pool1d", "nn.functional.avg_pool1d")
def avg_pool1d(
    input: Tensor, kernel_size: int, stride: int | None = None, padding: int = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The means of windows of `kernel_size` elements, one every `stride` (default: kernel_size), with zero padding.

    input (N, C, L) or (C, L). With `ceil_mode` the last window may extend beyond the end; without `count_include_pad`
    the padding does not count in the divisor. RuntimeError for any other rank, for padding above half of the window and
    for windows longer than the input.

    >>> ag.avg_pool1d(ag.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    _check_rank("avg_pool1d", input)
    size, padding = _single(kernel_size), _single(padding)
    step = size if stride is None else _single(stride)
    length = input.shape[-1]
    count = _windows("avg_pool1d", length, size, step, padding, 1, ceil_mode)
    sums = window_sum(input, size, step, padding, count)
    starts = np.arange(count) * step - padding
    if count_include_pad:
        counts = np.minimum(starts + size, length + padding) - starts
    else:
        counts = np.minimum(starts + size, length) - np.maximum(starts, 0)
    return sums / int(counts[0]) if (counts == counts[0]).all() else sums / _constant(counts, input)


def _constant(values: np.ndarray, like: Tensor) -> Tensor:
    return wrap(backend.to_device(values, like.device)).to(like.dtype)


@public("adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool1d")
def adaptive_avg_pool1d(input: Tensor, output_size: int) -> Tensor:
    """The means of `output_size` windows that cover the input (N, C, L) or (C, L) evenly: [i L / n, (i + 1) L / n).

    >>> ag.adaptive_avg_pool1d(ag.tensor([[1.0, 3.0, 5.0, 7.0, 9.0]]), 2)
    tensor([[3., 7.]])
    """
    _check_rank("adaptive_avg_pool1d", input)
    count, length = _single(output_size), input.shape[-1]
    if count and not length:
        raise RuntimeError("adaptive_avg_pool1d(): Expected input to have non-zero size for non-batch dimensions, but "
                           f"input has sizes {list(input.shape)}: there is nothing to average")
    if count and length % count == 0:
        return input.reshape(*input.shape[:-1], count, length // count).mean(-1)
    steps = np.arange(count) * length
    starts, ends = steps // max(count, 1), -(-(steps + length) // max(count, 1))
    positions = np.arange(length)[:, None]
    shares = ((positions >= starts) & (positions < ends)) / (ends - starts)  # (L, count)
    return input.matmul(_constant(shares, input))


# ---- maxima ------------------------------------------------------------------------------------------


@public("max_pool1d", "nn.functional.max_pool1d")
def max_pool1d(
    input: Tensor, kernel_size: int, stride: int | None = None, padding: int = 0, dilation: int = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest elements of windows of `kernel_size` elements, one every `stride` (default: kernel_size).

    input (N, C, L) or (C, L). Elements of a window are `dilation` apart; `padding` adds elements that are never the
    largest; with `ceil_mode` the last window may extend beyond the end. The gradient goes to the first maximum. With
    `return_indices` it returns (maxima, indices). RuntimeError as in `avg_pool1d`.

    >>> ag.max_pool1d(ag.tensor([[1.0, 3.0, 7.0, 5.0]]), 2)
    tensor([[3., 7.]])
    """
    _check_rank("max_pool1d", input)
    size, padding, dilation = _single(kernel_size), _single(padding), _single(dilation)
    step = size if stride is None else _single(stride)
    length = input.shape[-1]
    count = _windows("max_pool1d", length, size, step, padding, dilation, ceil_mode)
    windows = _window_indices(length, size, step, padding, dilation, count)
    indices = wrap(backend.to_device(windows, input.device))
    if step == size and dilation == 1 and not padding and count * size <= length:
        elements = input[..., : count * size].reshape(*input.shape[:-1], count, size)
    else:
        elements = RECORD.advanced_index(input, indices, dims=(-1,))
    values, chosen = RECORD.max_dim(elements, -1)
    if not return_indices:
        return values
    return values, indices.expand(*input.shape[:-1], count, size).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _window_indices(length: int, size: int, stride: int, padding: int, dilation: int, count: int) -> np.ndarray:
    """(count, size) indices into the input. An index in the padding is replaced by the nearest index of the window."""
    starts = np.arange(count)[:, None] * stride - padding
    first = starts + np.maximum(-(starts // dilation), 0) * dilation
    last = starts + np.minimum((length - 1 - starts) // dilation, size - 1) * dilation
    if (first > last).any():
        raise RuntimeError(f"max_pool1d: with dilation {dilation} a window lies in the padding alone; use less padding")
    return np.clip(starts + np.arange(size) * dilation, first, last)


# ---- pixels ------------------------------------------------------------------------------------------


@public("pixel_shuffle", "nn.functional.pixel_shuffle")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r r, H, W) -> (..., C, H r, W r): r * r channels become blocks of r x r pixels (Shi et al. 2016).

    >>> ag.pixel_shuffle(ag.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError("pixel_shuffle expects input to have at least 3 dimensions, but got input with "
                           f"{input.ndim} dimension(s)")
    *lead, channels, height, width = input.shape
    if r < 1 or channels % (r * r):
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}")
    n = math.prod(lead)
    blocks = input.reshape(n, channels // (r * r), r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(*lead, channels // (r * r), height * r, width * r)


@public("pixel_unshuffle", "nn.functional.pixel_unshuffle")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) -> (..., C r r, H, W): the inverse of `pixel_shuffle`.

    >>> ag.pixel_unshuffle(ag.arange(4.0).reshape(1, 2, 2), 2).ravel()
    tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError("pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
                           f"{input.ndim} dimension(s)")
    *lead, channels, height, width = input.shape
    for what, size, dim in (("height", height, -2), ("width", width, -1)):
        if r < 1 or size % r:
            raise RuntimeError(f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                               f"input.size({dim})={size} is not divisible by {r}")
    n = math.prod(lead)
    blocks = input.reshape(n, channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(*lead, channels * r * r, height // r, width // r)
