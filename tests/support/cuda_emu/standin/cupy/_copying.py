"""Bytes from one address to another: between device and pinned memory when the stream gets there; pageable memory of
the host is read, or written, before the call returns.
"""

from __future__ import annotations

import ctypes

import numpy as np

from . import _errors
from ._clock import Access
from ._errors import CUDARuntimeError, HazardError
from ._memory import find, view
from ._queue import DEVICES, Queue
from ._state import current_device, queue_of

BYTES = np.dtype(np.uint8)


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    queue = DEVICES[current_device()].null
    _copy(dst, src, size, queue)
    queue.synchronize()


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    _copy(dst, src, size, queue_of(stream))


def _copy(dst: int, src: int, size: int, queue: Queue) -> None:
    if not size:
        return
    target, source = _range(dst, size, True), _range(src, size, False)
    if queue.capture is not None and (target is None or source is None):
        queue.capture.refuse()
    data = np.frombuffer(ctypes.string_at(src, size), BYTES) if source is None else source[3]
    into = np.frombuffer((ctypes.c_char * size).from_address(dst), BYTES) if target is None else target[3]
    if dst < src + size and src < dst + size and dst != src:
        raise HazardError(f"a copy of {size} bytes from {src:#x} to {dst:#x}: the two overlap, which is undefined")
    accesses = [found for found in (target, source) if found is not None]
    inside = len(accesses) == 2 and not any(block.pinned for block, *_ in accesses)
    queue.push(lambda: np.copyto(into, data), "memcpy" if inside else "memcpy with the host", accesses)
    if target is None:
        queue.synchronize()


def _range(address: int, size: int, writes: bool) -> Access | None:
    """The access to `size` bytes of device or pinned memory; None for pageable memory of the host."""
    block = find(address)
    if block is None:
        return None
    if block.dead or block.freed is not None:
        raise HazardError(f"a copy of {size} bytes uses memory that was freed: {block}")
    if address + size > block.ptr + block.size:
        raise CUDARuntimeError(_errors.INVALID_VALUE)
    return block, address, address + size, view(address, (size,), BYTES), writes


def memset(ptr: int, value: int, size: int) -> None:
    memsetAsync(ptr, value, size, 0)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    target = _range(ptr, size, True)
    if target is None:
        raise CUDARuntimeError(_errors.INVALID_VALUE)
    queue_of(stream).push(lambda: target[3].fill(value & 0xFF), "memset", [target])
