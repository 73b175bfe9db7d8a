"""In-place conversion of a module to another device or dtype."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..backend.arrays import dtypes
from ..backend.arrays.device import Device
from ..backend.arrays.dtypes import FLOATS, as_dtype
from ..backend.arrays.memory_format import is_contiguous_format
from ..core.graph.storage import bump_version
from ..core.tensor import Tensor
from .parameter import is_lazy
from .traversal import M, Tree

Self = TypeVar("Self", bound="Movable")


class Movable(Tree[M]):
    """The part of Module that converts."""

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Converts parameters, buffers and gradients in place: to(device), to(dtype), both, or to(tensor).

        A dtype must be floating-point, and applies to floating-point tensors only. The Parameter objects stay the same,
        so optimizers that hold them remain valid. TypeError for another dtype.

        >>> ag.nn.Linear(2, 2).to(ag.float64).weight.dtype
        dtype('float64')
        """
        device, dtype = parse(*args, **kwargs)
        convert(self, device, dtype)
        return self

    def type(self: Self, dst_type: Any) -> Self:
        """Converts floating-point parameters and buffers to `dst_type`: `to(dst_type)`."""
        return self.to(dtype=dst_type)

    def cpu(self: Self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: int | str | Device | None = None) -> Self:
        """Moves parameters and buffers to a CUDA device, by default the first."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

    def float(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Converts floating-point parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)


def parse(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> tuple[Device | None, np.dtype | None]:
    """The device and dtype in the arguments of `Module.to`; either may be None.

    Ignores `non_blocking`, by name or position, and `memory_format`, except for channels_last, which is an error.
    """
    is_contiguous_format("to", memory_format)
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, Device) or (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda")):
            device = value
        elif value is not None and not isinstance(value, bool):
            dtype = value
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is not None and wanted not in FLOATS:
        raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={wanted}")
    return (None if device is None else Device(device)), wanted


def convert(root: Tree[Any], device: Device | None, dtype: np.dtype | None) -> None:
    """Converts every parameter, its gradient and every buffer below `root`, all or (if one fails) none."""
    tensors: list[Tensor] = []
    lazy: list[Any] = []
    for leaf in [*root.parameters(), *root.buffers()]:
        (lazy if is_lazy(leaf) else tensors).append(leaf)
        if leaf.grad is not None:
            tensors.append(leaf.grad)
    arrays = [_converted(tensor, device, dtype) for tensor in tensors]
    for tensor, array in zip(tensors, arrays, strict=True):
        if array is not tensor.array:
            # The object stays the same, since optimizers and hooks hold it; the version is bumped for saved tensors.
            tensor._array = array
            bump_version(tensor)
    for parameter in lazy:
        parameter.place(device, dtype)


def _converted(tensor: Tensor, device: Device | None, dtype: np.dtype | None) -> Any:
    wanted = tensor.detach()
    if device is not None:
        wanted = wanted.to(device)
    if dtype is not None and tensor.dtype in FLOATS:
        wanted = wanted.to(dtype)
    return wanted.array
