"""Pinned host memory. Copies to and from it wait for their stream, so it must live and rest until they are done."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from . import _clock, _emulation
from ._errors import HazardError
from ._memory import Block, find
from ._queue import DEVICES
from ._state import current_device, current_queue

UNIT = 512


class PinnedMemory:
    """What cudaHostAlloc gives."""

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size = size
        queue = current_queue()
        if queue.capture is not None:
            queue.capture.refuse_unless_relaxed()
        self._block = Block(size, current_device(), DEVICES[current_device()].null, pinned=True) if size else None
        self.ptr = self._block.ptr if size else 0

    def __int__(self) -> int:
        return self.ptr

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and getattr(self, "_block", None) is not None:
            rest(self._block)
            self._block.kill()


def rest(block: Block) -> None:
    """Notes a hazard if unfinished work uses a pinned block that is being freed; lets that work finish first."""
    block.freed = _clock.caller()
    for *_, operation in block.accesses:
        if not operation.precedes(None, _clock.HOST.clock):
            _emulation.found(HazardError(f"pinned memory freed in flight: {operation} still uses {block}; wait for it "
                                         "with an event or its stream first"))
            operation.queue.run_to(operation.number)


class PinnedMemoryPointer:
    """A place in pinned memory. NumPy finds the memory because it is a ctypes array, too."""

    mem: Any
    ptr: int

    def __new__(cls, mem: Any, offset: int) -> PinnedMemoryPointer:
        return _kind(mem.size - offset).from_address(mem.ptr + offset)

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def __sub__(self, offset: int) -> PinnedMemoryPointer:
        return self + -offset

    def size(self) -> int:
        return self.mem.size - (self.ptr - self.mem.ptr)


@functools.cache
def _kind(size: int) -> Any:
    facts = {"_type_": ctypes.c_byte, "_length_": size}
    return type("PinnedMemoryPointer", (PinnedMemoryPointer, ctypes.c_byte * size), facts)


class _PooledPinnedMemory:
    def __init__(self, mem: PinnedMemory, pool: PinnedMemoryPool) -> None:
        self.mem, self.ptr, self.size, self._pool = mem, mem.ptr, mem.size, pool

    def free(self) -> None:
        if self.ptr:
            rest(self.mem._block)
            self._pool._give_back(self.mem)
        self.ptr = self.size = 0

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing():
            self.free()


class PinnedMemoryPool:
    """Keeps freed memory by size, which is rounded up to a power of two, and hands it out again at once."""

    def __init__(self, allocator: Callable[[int], Any] | None = None) -> None:
        self._allocator = allocator or _malloc
        self._free: dict[int, list[PinnedMemory]] = {}

    def malloc(self, size: int) -> Any:
        if not size:
            return PinnedMemoryPointer(PinnedMemory(0), 0)
        size = 1 << (-(-size // UNIT) * UNIT - 1).bit_length()
        free = self._free.get(size)
        mem = free.pop() if free else self._allocator(size).mem
        mem._block.freed = None
        return PinnedMemoryPointer(_PooledPinnedMemory(mem, self), 0)

    def _give_back(self, mem: PinnedMemory) -> None:
        ctypes.memset(mem.ptr, 0xFF, mem.size)
        self._free.setdefault(mem.size, []).append(mem)

    def free_all_blocks(self) -> None:
        self._free.clear()

    def n_free_blocks(self) -> int:
        return sum(map(len, self._free.values()))


def _malloc(size: int) -> Any:
    return PinnedMemoryPointer(PinnedMemory(size), 0)


DEFAULT_POOL = PinnedMemoryPool()
_allocator: list[Callable[[int], Any]] = [DEFAULT_POOL.malloc]


def alloc_pinned_memory(size: int) -> Any:
    return _allocator[0](size)


def set_pinned_memory_allocator(allocator: Callable[[int], Any] | None = None) -> None:
    _allocator[0] = allocator or _malloc


def is_memory_pinned(data: int) -> bool:
    block = find(data)
    return block is not None and block.pinned
