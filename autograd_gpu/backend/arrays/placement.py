"""The device of an array, and copies between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cuda import runtime
from ..transfer import pinned_arrays
from .device import CPU, Device, cuda, require_memory
from .namespace import is_cuda


def resolve(device: Device) -> Device:
    """`device` with an index: "cuda" becomes the current CUDA device."""
    if device.type == "cpu":
        return device
    require_memory(device)
    return cuda(runtime.device_index()) if device.index is None else device


def device_of(array: Any) -> Device:
    """The device of a NumPy or CuPy array."""
    if type(array) is np.ndarray:
        return CPU
    return cuda(array.data.device_id) if is_cuda(array) else CPU


def on_one_device(arrays: Sequence[Any]) -> bool:
    """Whether all arrays are on the same device."""
    kinds = set(map(type, arrays))
    if kinds == {np.ndarray}:
        return True
    if len(kinds) == 1 and is_cuda(arrays[0]):
        return len({array.data.device_id for array in arrays}) == 1
    return len(set(map(device_of, arrays))) == 1


def to_device(array: Any, device: Device, non_blocking: bool = False) -> Any:
    """`array` on `device`: the same array if it is there already, else a copy.

    With `non_blocking` a copy from page-locked memory to CUDA is only queued: the memory must keep its values.
    """
    on_cuda = is_cuda(array)
    if device.type == "cpu":
        return runtime.to_host(array) if on_cuda else array
    require_memory(device)
    if on_cuda:
        return runtime.to_device(array, runtime.device_index(device))
    index = runtime.device_index(device)
    if pinned_arrays.can_send(array):  # CuPy would only queue the copy, whatever becomes of the memory
        return pinned_arrays.send(array, index, non_blocking)
    return runtime.from_host(array, index)


def to_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array: the same array, or a copy of a CuPy array."""
    return to_device(array, CPU)
