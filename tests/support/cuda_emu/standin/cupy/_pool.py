"""CuPy's memory pool: chunks of device memory, kept per stream when freed, split and merged as CuPy does.

The chunks are accounts: every allocation gets a watched block of its own (_memory.py), so that a bug meets an
unreadable page where the real pool would hand out somebody else's data. With `configure(addresses="pool")` a block gets
the address that its chunk has in its segment: the next owner of the chunk, the same. Among free chunks of one size
CuPy takes that whose object has the lowest address, so that which one it is differs between processes there, too.
"""

from __future__ import annotations

import bisect
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import _errors, _hooks, _launches
from ._emulation import SETTINGS
from ._errors import CUDARuntimeError, OutOfMemoryError
from ._memory import SPACE_OF_ALL, SPREAD, UNIT, Block
from ._pointers import BaseMemory, Memory, MemoryPointer, malloc, malloc_for_pool
from ._queue import DEVICES, LOCK
from ._state import current_device, current_queue


class Segment:
    """One cudaMalloc of a pool, and the blocks of graphs that may come to life again when a graph is launched."""

    def __init__(self, memory: BaseMemory, size: int) -> None:
        self.memory = memory
        self.captured: list[tuple[int, int, Block]] = []
        pooled = SETTINGS.addresses == "pool" or not SETTINGS.computes
        self.start = SPACE_OF_ALL.reserve(size // UNIT * SPREAD) if pooled else None

    def __del__(self) -> None:
        for _, _, block in self.captured:
            block.reused = "given it back to the device"

    def address(self, low: int) -> int | None:
        """Of the chunk that begins at `low`; None: of its own for each block."""
        return None if self.start is None else self.start + low // UNIT * SPREAD + UNIT


class Chunk:
    """The bytes [low, low + size) of a segment, free if it is in the list of its stream's arena."""

    __slots__ = ("low", "next", "previous", "queue", "segment", "size")

    def __init__(self, segment: Segment, low: int, size: int, queue: Any) -> None:
        self.segment, self.low, self.size, self.queue = segment, low, size, queue
        self.previous: Chunk | None = None
        self.next: Chunk | None = None

    def key(self) -> tuple[int, int]:
        return self.size, id(self)

    def split(self, size: int) -> Chunk | None:
        """Keeps `size` bytes and returns the rest as a chunk, if there is a rest."""
        if size == self.size:
            return None
        rest = Chunk(self.segment, self.low + size, self.size - size, self.queue)
        rest.previous, rest.next = self, self.next
        if self.next is not None:
            self.next.previous = rest
        self.next, self.size = rest, size
        return rest

    def absorb_next(self) -> None:
        following = self.next
        self.size += following.size
        self.next = following.next
        if self.next is not None:
            self.next.previous = self


class Arena(dict):
    """The free chunks of one stream: key -> chunk, and the keys in order."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_in_order: list[tuple[int, int]] = []

    def add(self, chunk: Chunk, merge: bool = True) -> None:
        while merge and chunk.next is not None and self.remove(chunk.next):
            chunk.absorb_next()
        while merge and chunk.previous is not None and self.remove(chunk.previous):
            chunk = chunk.previous
            chunk.absorb_next()
        self[chunk.key()] = chunk
        bisect.insort(self.keys_in_order, chunk.key())

    def remove(self, chunk: Chunk) -> bool:
        if self.pop(chunk.key(), None) is None:
            return False
        del self.keys_in_order[bisect.bisect_left(self.keys_in_order, chunk.key())]
        return True

    def take(self, size: int) -> Chunk | None:
        """The smallest chunk that holds `size` bytes, cut to them."""
        at = bisect.bisect_left(self.keys_in_order, (size, 0))
        if at == len(self.keys_in_order):
            return None
        chunk = self.pop(self.keys_in_order.pop(at))
        rest = chunk.split(size)
        if rest is not None:
            self.add(rest, merge=False)
        return chunk

    def take_whole(self) -> int:
        """Drops the chunks that are whole segments; their bytes."""
        whole = [chunk for chunk in self.values() if chunk.next is None and chunk.previous is None]
        for chunk in whole:
            self.remove(chunk)
        return sum(chunk.size for chunk in whole)


class PooledMemory(BaseMemory):
    """A chunk in use, and the block that stands for it; none where nothing is computed."""

    ptr = 0
    _block: Block | None = None

    def __init__(self, chunk: Chunk, pool: SingleDeviceMemoryPool, size: int) -> None:
        self.size, self.pool, self._chunk = chunk.size, weakref.ref(pool), chunk
        self.device_id = pool.device_id
        address = chunk.segment.address(chunk.low)
        if not SETTINGS.computes:
            self.ptr = address
            return
        if address is not None:
            _finish_former(address - UNIT, chunk.segment.address(chunk.low + chunk.size) - UNIT)
        self._block = block = Block(size, self.device_id, chunk.queue, ptr=address)
        self.ptr = block.ptr
        capture = chunk.queue.capture
        high = chunk.low + chunk.size
        for low, end, old in chunk.segment.captured:
            if low < high and chunk.low < end and capture is None:  # graphs may share a pool
                old.reused = "given it away again"
        if capture is not None:
            block.capture = capture
            chunk.segment.captured.append((chunk.low, high, block))

    def free(self) -> None:
        if not self.ptr:
            return
        ptr, self.ptr = self.ptr, 0
        if self._block is not None:
            DEVICES[self.device_id].release(self._block)
        pool = self.pool()
        if pool is None:
            return
        if not _hooks.get_memory_hooks():
            pool.free(self._chunk)
        else:
            with _hooks.around("free", device_id=self.device_id, mem_size=self.size, mem_ptr=ptr, pmem_id=id(self)):
                pool.free(self._chunk)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # at the end `sys` is gone
        if not is_finalizing():
            self.free()


def _finish_former(low: int, high: int) -> None:
    """Lets streams run up to where they free what had these addresses. A graph's memory stays as it is."""
    for block in SPACE_OF_ALL.former(low, high):
        device, home = DEVICES[block.device], block.home
        device.release_all()
        while home.returned:
            device.release(home.returned.popleft())
        if not block.dead and block.freeing:
            home.run_to(block.freeing.number)


class SingleDeviceMemoryPool:
    def __init__(self, allocator: Callable[[int], MemoryPointer] | None = None) -> None:
        self.device_id = current_device()
        self._allocator = allocator or malloc_for_pool
        self._arenas: dict[Any, Arena] = {}
        self._freed: list[Chunk] = []  # by finalizers, which may run while the arenas are being changed
        self._used = self._total = self._limit = 0

    def malloc(self, size: int) -> MemoryPointer:
        if not size:
            return MemoryPointer(Memory(0), 0)
        rounded = -(-size // UNIT) * UNIT
        if _launches.ACTIVE:
            _launches.count("allocations")
        if not _hooks.get_memory_hooks():
            return MemoryPointer(self._malloc(size, rounded), 0)
        with _hooks.around("malloc", device_id=self.device_id, size=size, mem_size=rounded) as done:
            memory = self._malloc(size, rounded)
            done.update(mem_ptr=memory.ptr, pmem_id=id(memory))
            return MemoryPointer(memory, 0)

    def _malloc(self, size: int, rounded: int) -> PooledMemory:
        queue = current_queue()
        with LOCK:
            chunk = self._arena(queue).take(rounded)
            if chunk is None:
                chunk = Chunk(Segment(self._grow(rounded), rounded), 0, rounded, queue)
            self._used += rounded
            return PooledMemory(chunk, self, size)

    def free(self, chunk: Chunk) -> None:
        with LOCK:
            self._used -= chunk.size
            self._freed.append(chunk)

    def _take_back(self) -> None:
        """Takes back what was freed since the last call."""
        while self._freed:
            chunk = self._freed.pop()
            self._arenas.setdefault(chunk.queue, Arena()).add(chunk)

    def _arena(self, queue: Any) -> Arena:
        """The free chunks of `queue`."""
        self._take_back()
        return self._arenas.setdefault(queue, Arena())

    def _grow(self, size: int) -> BaseMemory:
        """More memory of the device, as far as the limit allows; frees what is unused before it gives up."""
        attempts: tuple[Callable[[], object], ...] = (self.free_all_blocks, gc.collect, self.free_all_blocks)
        if self._limit and size > self._limit:
            raise OutOfMemoryError(size, self._total, self._limit)
        for attempt in (lambda: None, *attempts):
            attempt()
            if self._limit and self._total + size > self._limit:
                continue
            try:
                if _launches.ACTIVE:
                    _launches.count("device_allocations")
                with _hooks.around("alloc", device_id=self.device_id, mem_size=size) as done:
                    pointer = self._allocator(size)
                    done.update(mem_ptr=pointer.mem.ptr if _hooks.get_memory_hooks() else 0)
            except CUDARuntimeError as error:
                if error.status != _errors.MEMORY_ALLOCATION:
                    raise
                continue
            self._total += size
            return pointer.mem
        raise OutOfMemoryError(size, self._total, self._limit)

    def free_all_blocks(self, stream: Any = None) -> None:
        self._take_back()
        arenas = tuple(self._arenas.values()) if stream is None else (self._arena(current_queue(stream)),)
        self._total -= sum(arena.take_whole() for arena in arenas)
        self._arenas = {queue: arena for queue, arena in self._arenas.items() if arena}  # as CuPy compacts its index

    def n_free_blocks(self) -> int:
        self._take_back()
        return sum(map(len, self._arenas.values()))

    def used_bytes(self) -> int:
        return self._used

    def free_bytes(self) -> int:
        return self._total - self._used

    def total_bytes(self) -> int:
        return self._total

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if fraction is not None:
            if not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            size = int(fraction * SETTINGS.memory)
        if size is not None and size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        self._limit = size or 0

    def get_limit(self) -> int:
        return self._limit


class MemoryPool:
    """A pool for every device; a method goes to that of the current one."""

    def __init__(self, allocator: Callable[[int], MemoryPointer] | None = None) -> None:
        self._allocator = allocator
        self._pools: dict[int, SingleDeviceMemoryPool] = {}

    def _current(self) -> SingleDeviceMemoryPool:
        device = current_device()
        if device not in self._pools:
            self._pools[device] = SingleDeviceMemoryPool(self._allocator)
        return self._pools[device]

    def malloc(self, size: int) -> MemoryPointer:
        return self._current().malloc(size)

    def free_all_blocks(self, stream: Any = None) -> None:
        self._current().free_all_blocks(stream)

    def free_all_free(self) -> None:
        warnings.warn("free_all_free is deprecated. Use free_all_blocks instead.", DeprecationWarning, stacklevel=2)
        self.free_all_blocks()

    def n_free_blocks(self) -> int:
        return self._current().n_free_blocks()

    def used_bytes(self) -> int:
        return self._current().used_bytes()

    def free_bytes(self) -> int:
        return self._current().free_bytes()

    def total_bytes(self) -> int:
        return self._current().total_bytes()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._current().set_limit(size, fraction)

    def get_limit(self) -> int:
        return self._current().get_limit()


# ---- which allocator is asked --------------------------------------------------------------------------


class _Allocators(threading.local):
    of_thread: Any = None


DEFAULT_POOL = MemoryPool()
_allocators = _Allocators()
_of_process: list[Callable[[int], MemoryPointer]] = [DEFAULT_POOL.malloc]


def get_allocator() -> Callable[[int], MemoryPointer]:
    return _allocators.of_thread or _of_process[0]


def set_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> None:
    if _allocators.of_thread is not None:
        raise ValueError("Can't change the global allocator inside `using_allocator` context manager")
    _of_process[0] = allocator or malloc


@contextmanager
def using_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> Iterator[None]:
    previous, _allocators.of_thread = _allocators.of_thread, allocator or malloc
    try:
        yield
    finally:
        _allocators.of_thread = previous


def alloc(size: int) -> MemoryPointer:
    return get_allocator()(size)
