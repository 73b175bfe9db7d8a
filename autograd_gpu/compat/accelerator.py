"""The accelerator of this machine, by PyTorch's names: CUDA's devices, or none.

Without one `is_available` is False, `current_accelerator` None and `device_count` 0, and all other functions raise
RuntimeError, as in PyTorch. `ag.cuda` has more.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .. import cuda
from ..backend.arrays.device import Device

Index = int | str | Device | None


def is_available() -> bool:
    """Whether there is an accelerator, a CUDA device.

    >>> ag.accelerator.is_available() == ag.cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """The number of devices of the accelerator; 0 without one.

    >>> ag.accelerator.device_count() == ag.cuda.device_count()
    True
    """
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The accelerator as a device without an index; None without one.

    >>> device = ag.accelerator.current_accelerator() or ag.device("cpu")
    """
    return Device("cuda") if cuda.is_available() else None


def _require() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def _index_of(device: Index) -> int:
    """The index of `device`, by default of the current one; ValueError for a device that is no accelerator."""
    _require()
    if device is None or isinstance(device, int):
        return cuda.current_device() if device is None else device
    target = Device(device)
    if target.type != "cuda":
        raise ValueError(f"{target.type} doesn't match the current accelerator cuda.")
    return cuda.current_device() if target.index is None else target.index


def current_device_index() -> int:
    """The index of this thread's current device."""
    _require()
    return cuda.current_device()


def set_device_index(device: Index, /) -> None:
    """Sets this thread's current device, given by index or as a device."""
    cuda.set_device(_index_of(device))


def device_index(device: int | None, /) -> AbstractContextManager[None]:
    """Context with another current device; None has no effect."""
    return cuda.device(device)


def synchronize(device: Index = None, /) -> None:
    """Blocks until all work on the device is complete."""
    cuda.synchronize(_index_of(device))


def current_stream(device: Index = None, /) -> Any:
    """The current stream of the device."""
    return cuda.current_stream(_index_of(device))


def set_stream(stream: Any) -> None:
    """Makes `stream` the current one, and its device the current device."""
    _require()
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Gives the memory that is held for reuse back to the device."""
    _require()
    cuda.empty_cache()


def memory_allocated(device_index: Index = None, /) -> int:
    """The bytes that tensors and arrays on the device occupy."""
    return cuda.memory_allocated(_index_of(device_index))


def max_memory_allocated(device_index: Index = None, /) -> int:
    """The largest `memory_allocated` since the program began or since `reset_peak_memory_stats`."""
    return cuda.max_memory_allocated(_index_of(device_index))


def memory_reserved(device_index: Index = None, /) -> int:
    """The bytes that are held on the device, in use or for reuse."""
    return cuda.memory_reserved(_index_of(device_index))


def max_memory_reserved(device_index: Index = None, /) -> int:
    """The largest `memory_reserved` since the program began or since `reset_peak_memory_stats`."""
    return cuda.max_memory_reserved(_index_of(device_index))


def memory_stats(device_index: Index = None, /) -> dict[str, Any]:
    """The statistics of memory on the device; see `ag.cuda.memory_stats`."""
    return cuda.memory_stats(_index_of(device_index))


def reset_peak_memory_stats(device_index: Index = None, /) -> None:
    """Starts the largest values of memory anew."""
    cuda.reset_peak_memory_stats(_index_of(device_index))


def get_memory_info(device_index: Index = None, /) -> tuple[int, int]:
    """(free, total): the bytes of the device's memory."""
    return cuda.mem_get_info(_index_of(device_index))


current_device_idx, set_device_idx = current_device_index, set_device_index  # PyTorch's older names

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
]  # fmt: skip
