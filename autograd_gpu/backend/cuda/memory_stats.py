"""Current and peak bytes of CuPy's memory pool, and of the pools of CUDA graphs with it.

CuPy counts the bytes in use but keeps no peak, and a MemoryHook sees one thread only. The bytes in use rise only in an
allocation, so `PeakTracker` wraps the pool as the allocator of the process and reads the pool's count after each one.
A peak is missed if another thread frees memory between an allocation and the read. In CuPy 14.2 the count is one
number; CuPy 14.0 sums over all blocks in use at each read.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import runtime

_GRAPHS: weakref.WeakSet[Any] = weakref.WeakSet()


def add_graphs(graphs: Any) -> None:
    """Counts the pool `graphs.memory` as long as `graphs` lives.

    Not as long as arrays lie in the pool: then it would have to be held, and with it what is lost to it, since CuPy's
    arrays do not give memory back that the garbage collector finds.
    """
    _GRAPHS.add(graphs)


def in_use(memory: Any) -> tuple[int, int]:
    """The bytes in use and the bytes held on the current device by the pool `memory` and those of CUDA graphs."""
    pools = [memory, *[graphs.memory for graphs in list(_GRAPHS)]]
    return sum([pool.used_bytes() for pool in pools]), sum([pool.total_bytes() for pool in pools])


class GraphAllocator:
    """The allocator of a thread that captures a CUDA graph: takes from the graph's pool, and calls `allocated`.

    `outer` is the thread's allocator before.
    """

    def __init__(self, memory: Any, allocated: Callable[[], None]) -> None:
        self.memory, self._allocated = memory, allocated
        self.outer = runtime.cupy().cuda.get_allocator()

    def __call__(self, size: int) -> Any:
        memory = self.memory.malloc(size)
        self._allocated()
        if isinstance(self.outer, PeakTracker):
            self.outer.look(memory.device_id)
        return memory


class PeakTracker:
    """An allocator that forwards to `malloc` and records the peak bytes of its pool, per device.

    `used` and `held` map a device index to the peak bytes in use and the peak bytes held by the pool.
    """

    def __init__(self, malloc: Any, pool: Any) -> None:
        self.malloc, self.pool = malloc, pool
        self.used: dict[int, int] = {}
        self.held: dict[int, int] = {}
        # reentrant: a destructor that allocates may run while a peak is being noted
        self._lock = threading.RLock()

    def __call__(self, size: int) -> Any:
        memory = self.malloc(size)
        self.look(memory.device_id)
        return memory

    def look(self, index: int) -> None:
        """Updates the peaks of device `index`, the current device, from the pool's counts."""
        used, held = in_use(self.pool)
        if used > self.used.get(index, -1) or held > self.held.get(index, -1):
            with self._lock:
                self.used[index] = max(used, self.used.get(index, 0))
                self.held[index] = max(held, self.held.get(index, 0))

    def reset(self, index: int) -> None:
        """Resets the peaks of device `index`, the current device, to the pool's counts."""
        with self._lock:
            self.used[index], self.held[index] = in_use(self.pool)


def _allocator() -> Any:
    """This thread's allocator; in a capture that before it."""
    allocator = runtime.cupy().cuda.get_allocator()
    while isinstance(allocator, GraphAllocator):
        allocator = allocator.outer
    return allocator


def pool() -> Any:
    """The memory pool of this thread's allocator; RuntimeError if the allocator is not that of a pool."""
    allocator = _allocator()
    memory = allocator.pool if isinstance(allocator, PeakTracker) else getattr(allocator, "__self__", None)
    if not hasattr(memory, "used_bytes"):
        raise RuntimeError(
            f"CuPy's allocator is {allocator!r}, which is not a memory pool and does not count its bytes; ask the "
            "library that it comes from, or pass the malloc of a cupy.cuda.MemoryPool to cupy.cuda.set_allocator"
        )
    return memory


def watch() -> tuple[PeakTracker, bool]:
    """The PeakTracker of the process, and whether this call installed it.

    RuntimeError inside `with cupy.cuda.using_allocator(...)` if it is not installed yet.
    """
    allocator = _allocator()
    if isinstance(allocator, PeakTracker):
        return allocator, False
    new = PeakTracker(allocator, pool())
    try:
        runtime.cupy().cuda.set_allocator(new)
    except ValueError as error:
        raise RuntimeError(
            "peaks are not recorded inside a `with cupy.cuda.using_allocator(...)` block; ask before or after it"
        ) from error
    return new, True


def watching() -> PeakTracker | None:
    """The PeakTracker of the process if it is installed and this thread allocates through it, else None."""
    allocator = _allocator()
    return allocator if isinstance(allocator, PeakTracker) else None
