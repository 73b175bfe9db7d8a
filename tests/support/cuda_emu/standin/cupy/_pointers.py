"""Device memory as CuPy hands it about: Memory, UnownedMemory and pointers into them."""

from __future__ import annotations

import sys
from typing import Any

from . import _copying, _errors
from ._device import Device
from ._emulation import SETTINGS
from ._errors import CUDARuntimeError
from ._memory import Block, find
from ._queue import DEVICES
from ._state import current_device, current_queue

_ANY_WAY = 4  # cudaMemcpyDefault: from where to where, the addresses tell


class BaseMemory:
    """Device memory: `ptr`, `size` and `device_id`."""

    ptr: int
    size: int
    device_id: int

    def __int__(self) -> int:
        return self.ptr

    @property
    def device(self) -> Device:
        return Device(self.device_id)


class Memory(BaseMemory):
    """What cudaMalloc gives. Its block is made when the address is asked for: a pool never asks."""

    def __init__(self, size: int) -> None:
        self.size, self.device_id = size, current_device()
        self._block: Block | None = None
        if size:
            home = current_queue()
            if home.capture is not None:
                home.capture.refuse_unless_relaxed()
            device = DEVICES[self.device_id]
            if device.allocated + size > SETTINGS.memory:
                raise CUDARuntimeError(_errors.MEMORY_ALLOCATION)
            device.allocated += size
            self._home = home  # says that the memory counts

    @property
    def ptr(self) -> int:
        if not self.size:
            return 0
        if self._block is None:
            self._block = Block(self.size, self.device_id, self._home)
        return self._block.ptr

    def __del__(self) -> None:
        if getattr(self, "_home", None) is not None and sys is not None and not sys.is_finalizing():
            device = DEVICES[self.device_id]
            device.allocated -= self.size
            if self._block is not None:
                device.release(self._block)


class UnownedMemory(BaseMemory):
    """Memory of somebody else, kept alive by `owner`."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        block = find(ptr)
        if device_id < 0 and block is None:
            raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer." if not ptr else
                               f"{ptr:#x} is no device memory")
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = device_id if block is None else block.device


class MemoryPointer:
    """A place in memory: `mem` and the address `ptr`."""

    __slots__ = ("device_id", "mem", "ptr")

    def __init__(self, mem: BaseMemory, offset: int) -> None:
        self.mem, self.device_id, self.ptr = mem, mem.device_id, mem.ptr + offset

    def __int__(self) -> int:
        return self.ptr

    @property
    def device(self) -> Any:
        return self.mem.device

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        _refuse_synchronous()
        _copying.memcpy(self.ptr, src.ptr, size, _ANY_WAY)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        _copying.memcpyAsync(self.ptr, src.ptr, size, _ANY_WAY, current_queue(stream).handle)

    def copy_from_host(self, mem: Any, size: int) -> None:
        _refuse_synchronous()
        _copying.memcpy(self.ptr, _address(mem), size, _ANY_WAY)

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        queue = _refuse_capturing(stream, "H2D")
        _copying.memcpyAsync(self.ptr, _address(mem), size, _ANY_WAY, queue.handle)

    def copy_to_host(self, mem: Any, size: int) -> None:
        _refuse_synchronous()
        _copying.memcpy(_address(mem), self.ptr, size, _ANY_WAY)

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        queue = _refuse_capturing(stream, "D2H")
        _copying.memcpyAsync(_address(mem), self.ptr, size, _ANY_WAY, queue.handle)

    def copy_from(self, mem: Any, size: int) -> None:
        (self.copy_from_device if isinstance(mem, MemoryPointer) else self.copy_from_host)(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        device = isinstance(mem, MemoryPointer)
        (self.copy_from_device_async if device else self.copy_from_host_async)(mem, size, stream)

    def memset(self, value: int, size: int) -> None:
        _refuse_synchronous()
        _copying.memset(self.ptr, value, size)

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        _copying.memsetAsync(self.ptr, value, size, current_queue(stream).handle)


def _address(mem: Any) -> int:
    return mem if isinstance(mem, int) else mem.value


def _refuse_synchronous() -> None:
    if current_queue().is_capturing():
        raise RuntimeError("the current stream is capturing, so synchronous API calls are disallowed")


def _refuse_capturing(stream: Any, way: str) -> Any:
    queue = current_queue(stream)
    if queue.is_capturing():
        raise RuntimeError(f"the current stream is capturing, so {way} transfers are disallowed")
    return queue


def malloc(size: int) -> MemoryPointer:
    """The allocator without a pool."""
    return MemoryPointer(Memory(size), 0)


def malloc_for_pool(size: int) -> MemoryPointer:
    """The same without asking for the address, so that no block is made: see Memory."""
    pointer = MemoryPointer.__new__(MemoryPointer)
    pointer.mem = Memory(size)
    pointer.device_id = pointer.mem.device_id
    return pointer
