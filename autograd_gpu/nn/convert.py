"""In-place conversion of a module to another device or dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..backend.arrays import dtypes
from ..backend.arrays.device import Device, is_device
from ..backend.arrays.dtypes import FLOATS, as_dtype
from ..backend.arrays.memory_format import is_contiguous_format
from ..core.graph.storage import bump_version
from ..core.tensor import Tensor
from ..modes import no_grad
from .parameter import is_lazy
from .registry import BUFFER, TRANSIENT
from .traversal import M, Tree

Self = TypeVar("Self", bound="Movable")


class Movable(Tree[M]):
    """The part of Module that converts."""

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Puts fn(tensor) in the place of the data of each parameter, gradient and buffer, and returns the module.

        `recurse=False` leaves out the children. Overrides are called by the methods that convert; a module that holds
        tensors besides may convert them there. Uninitialized parameters are left alone.
        """
        if recurse:
            for child in self.children():
                child._apply(fn)
        with no_grad():
            for tensor in self.parameters(recurse=False):
                if not is_lazy(tensor):
                    tensor.data = fn(tensor)
                    if tensor.grad is not None:
                        tensor.grad = fn(tensor.grad)
        for name, buffer in self._ag_members(BUFFER, TRANSIENT):
            self._ag_set(name, fn(buffer), self._ag_kinds[name])
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Converts parameters, buffers and gradients in place: to(device), to(dtype), both, or to(tensor).

        A dtype must be floating-point, and applies to floating-point tensors only. The Parameter objects stay the same,
        so optimizers that hold them remain valid. TypeError for another dtype.

        >>> ag.nn.Linear(2, 2).to(ag.float64).weight.dtype
        dtype('float64')
        """
        return self._ag_converted(*parse(*args, **kwargs))

    def _ag_converted(self: Self, device: Device | None = None, dtype: np.dtype | None = None) -> Self:
        """What `to` does, for `cpu`, `cuda` and `float`, which an overridden `to` may call, as in PyTorch."""
        convert(self, device, dtype)
        return self

    def type(self: Self, dst_type: Any) -> Self:
        """Converts floating-point parameters and buffers to `dst_type`: `to(dst_type)`."""
        return self._ag_converted(*parse(dtype=dst_type))

    def cpu(self: Self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self._ag_converted(Device("cpu"))

    def cuda(self: Self, device: int | str | Device | None = None) -> Self:
        """Moves parameters and buffers to a CUDA device, by default the first."""
        place = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        return self._ag_converted(Device(place))

    def float(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float32."""
        return self._ag_converted(dtype=dtypes.float32)

    def double(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float64."""
        return self._ag_converted(dtype=dtypes.float64)

    def half(self: Self) -> Self:
        """Converts floating-point parameters and buffers to float16."""
        return self._ag_converted(dtype=dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Converts floating-point parameters and buffers to bfloat16."""
        return self._ag_converted(dtype=dtypes.bfloat16)


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
        elif is_device(value):
            device = value
        elif value is not None and not isinstance(value, bool):
            dtype = value
    target = None if dtype is None else as_dtype(dtype)
    if target is not None and target not in FLOATS:
        raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={target}")
    return (None if device is None else Device(device)), target


def convert(root: Tree[Any], device: Device | None, dtype: np.dtype | None) -> None:
    """Converts every parameter, its gradient and every buffer below `root`, all or (if one fails) none.

    Where a module overrides `_apply`, they are converted one after another, by it.
    """
    if any(type(module)._apply is not Movable._apply for module in root.modules()):
        root._apply(lambda tensor: _as_wanted(tensor, device, dtype))
        for uninitialized in filter(is_lazy, root.parameters()):
            uninitialized.place(device, dtype)  # type: ignore[attr-defined]
        return
    tensors: list[Tensor] = []
    lazy: list[Any] = []
    for leaf in [*root.parameters(), *root.buffers()]:
        (lazy if is_lazy(leaf) else tensors).append(leaf)
        if leaf.grad is not None:
            tensors.append(leaf.grad)
    arrays = [_as_wanted(tensor, device, dtype).array for tensor in tensors]
    for tensor, array in zip(tensors, arrays, strict=True):
        if array is not tensor.array:
            # The object stays the same, since optimizers and hooks hold it; the version is bumped for saved tensors.
            tensor._array = array
            bump_version(tensor)
    for parameter in lazy:
        parameter.place(device, dtype)


def _as_wanted(tensor: Tensor, device: Device | None, dtype: np.dtype | None) -> Tensor:
    result = tensor.detach()
    if device is not None:
        result = result.to(device)
    return result.to(dtype) if dtype is not None and tensor.dtype in FLOATS else result
