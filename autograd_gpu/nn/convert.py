"""Moving a module to another device or dtype, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.device import Device
from ..backend.dtypes import FLOATS, as_dtype
from ..core.tensor import Tensor
from ..core.views import bump_version

if TYPE_CHECKING:
    from .module import Module


def parse(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False
) -> tuple[Device | None, np.dtype | None]:
    """The device and dtype that the arguments of `Module.to` name; either may be None.

    `non_blocking`, by name or position, is accepted and has no effect.
    """
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


def module(root: Module, device: Device | None, dtype: np.dtype | None) -> None:
    """Converts every parameter, its gradient and every buffer below `root`, all or (if one fails) none."""
    tensors: list[Tensor] = []
    for leaf in [*root.parameters(), *root.buffers()]:
        tensors.append(leaf)
        if leaf.grad is not None:
            tensors.append(leaf.grad)
    arrays = [_converted(tensor, device, dtype) for tensor in tensors]
    for tensor, array in zip(tensors, arrays, strict=True):
        if array is not tensor.array:
            # The object stays, for optimizers and hooks hold it; a graph that saved it is told of the change.
            tensor._array = array
            bump_version(tensor)


def _converted(tensor: Tensor, device: Device | None, dtype: np.dtype | None) -> Any:
    wanted = tensor.detach()
    if device is not None:
        wanted = wanted.to(device)
    if dtype is not None and tensor.dtype in FLOATS:
        wanted = wanted.to(dtype)
    return wanted.array
