"""1-d pooling and pixel shuffling as modules."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


def _as_tuple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class AvgPool1d(Module):
    """The means over windows of (N, C, L) or (C, L): `kernel_size` elements at every `stride` (default: kernel_size).

    >>> ag.nn.AvgPool1d(2)(ag.tensor([[1.0, 3.0, 5.0, 7.0]]))
    tensor([[2., 6.]])
    """

    def __init__(
        self, kernel_size: int, stride: int | None = None, padding: int = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _as_tuple(kernel_size)
        self.stride = _as_tuple(stride if stride is not None else kernel_size)
        self.padding = _as_tuple(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size[0], self.stride[0], self.padding[0], self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool1d(Module):
    """The means over `output_size` windows that cover L evenly: (N, C, L) or (C, L) -> (..., output_size).

    >>> ag.nn.AdaptiveAvgPool1d(1)(ag.tensor([[1.0, 3.0, 5.0]]))
    tensor([[3.]])
    """

    def __init__(self, output_size: int) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class MaxPool1d(Module):
    """The maxima over windows of (N, C, L) or (C, L); with `return_indices` also their indices.

    >>> ag.nn.MaxPool1d(2)(ag.tensor([[1.0, 3.0, 7.0, 5.0]]))
    tensor([[3., 7.]])
    """

    def __init__(
        self, kernel_size: int, stride: int | None = None, padding: int = 0, dilation: int = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class PixelShuffle(Module):
    """(..., C r r, H, W) -> (..., C, H r, W r).

    >>> ag.nn.PixelShuffle(2)(ag.zeros(1, 4, 3, 3)).shape
    (1, 1, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H r, W r) -> (..., C r r, H, W).

    >>> ag.nn.PixelUnshuffle(2)(ag.zeros(1, 1, 6, 6)).shape
    (1, 4, 3, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
