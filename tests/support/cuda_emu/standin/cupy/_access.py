"""What device work touches: the access of an array, device or pinned; and the copy from host memory to an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _clock
from ._emulation import SETTINGS
from ._errors import HazardError
from ._memory import find, view
from ._state import CURRENT, current_queue


def access(array: Any, writes: bool) -> _clock.Access:
    """What an operation that reads or writes `array` touches."""
    span = array._span
    raw = array._a
    if not SETTINGS.computes:
        return array.data.mem if raw.size else None, 0, 0, raw, writes
    if span is None or span[1] is not raw:
        data = array.data
        block = getattr(data.mem, "_block", None) or find(data.ptr)
        low, high = _clock.span(raw, data.ptr)
        array._span = span = ((block, low, high), raw)
    return (*span[0], raw, writes)


def pinned_access(host: np.ndarray, writes: bool) -> _clock.Access | None:
    """The same for a NumPy array in pinned memory; None for one in pageable memory."""
    ptr = host.__array_interface__["data"][0]
    block = find(ptr)
    if block is None or not block.pinned:
        return None
    raw = view(ptr, host.shape, host.dtype, host.strides)  # like a copy engine, it does not keep the memory alive
    return block, *_clock.span(host, ptr), raw, writes


def check_device(array: Any) -> None:
    """ValueError for an array on another device; the emulated devices cannot reach each other's memory."""
    if array.data.device_id != CURRENT.device:
        raise ValueError(f"The device where the array resides ({array.data.device_id}) is different from the current "
                         f"device ({CURRENT.device}). Peer access is unavailable between these devices.")


def refuse_overlap(what: str, target: Any, source: Any) -> None:
    """HazardError for an operation that reads memory of `source` while others of its threads write `target` there."""
    if source.size and target.size and np.shares_memory(target._a, source._a):
        raise HazardError(f"{what}: the target overlaps the source, and CuPy copies neither first, so what is read is "
                          "undefined; copy the source before")


def upload(target: Any, source: np.ndarray, stream: Any = None) -> None:
    """Host to device: pageable memory is read now, pinned memory when the stream gets there."""
    queue = current_queue(stream)
    if queue.is_capturing():
        raise RuntimeError("the current stream is capturing, so H2D transfers are disallowed")
    raw, accesses = target._a, [access(target, True)]
    pinned = pinned_access(source, False) if source.size else None
    if pinned is None:
        source = source.copy()
    else:
        accesses.append(pinned)
        source = pinned[3]
    queue.push(lambda: np.copyto(raw, source), "host to device copy", accesses)
