"""Bytes that CuPy's memory pool hands out, and the most that it handed out.

CuPy counts what is in use now but keeps no peak, and its MemoryHook sees one thread only. What is in use rises in an
allocation and nowhere else, so `Watch` stands in front of the pool as the allocator of the process and looks at the
pool's own count after each. A free on any thread lowers that count without passing here. One gap is left: where another
thread frees between an allocation and the look at the count, that instant is not seen. In CuPy 14.2 the count is one
number; in 14.0 it is the sum over all blocks in use, taken anew at each look.
"""

from __future__ import annotations

import threading
from typing import Any

from . import runtime


class Watch:
    """An allocator that passes every call to another one, and notes the peaks of its pool per device."""

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
        """Raises the peaks of device `index`, which is current, to what its pool says now."""
        used, held = self.pool.used_bytes(), self.pool.total_bytes()
        if used > self.used.get(index, -1) or held > self.held.get(index, -1):
            with self._lock:
                self.used[index] = max(used, self.used.get(index, 0))
                self.held[index] = max(held, self.held.get(index, 0))

    def reset(self, index: int) -> None:
        """Starts the peaks of device `index`, which is current, anew."""
        with self._lock:
            self.used[index], self.held[index] = self.pool.used_bytes(), self.pool.total_bytes()


def pool() -> Any:
    """The pool behind this thread's allocator; RuntimeError if that is something that does not count its bytes."""
    allocator = runtime.cupy().cuda.get_allocator()
    found = allocator.pool if isinstance(allocator, Watch) else getattr(allocator, "__self__", None)
    if not hasattr(found, "used_bytes"):
        raise RuntimeError(
            f"CuPy's allocator is {allocator!r}, which is not a memory pool and does not count its bytes; ask the "
            "library that it comes from, or give cupy.cuda.set_allocator the malloc of a cupy.cuda.MemoryPool"
        )
    return found


def watch() -> tuple[Watch, bool]:
    """The Watch of the process, and whether this call installed it."""
    module = runtime.cupy()
    allocator = module.cuda.get_allocator()
    if isinstance(allocator, Watch):
        return allocator, False
    new = Watch(allocator, pool())
    try:
        module.cuda.set_allocator(new)
    except ValueError as error:
        raise RuntimeError(
            "peaks are not known inside a `with cupy.cuda.using_allocator(...)` block; ask before or after it"
        ) from error
    return new, True


def watching() -> Watch | None:
    """The Watch of the process if there is one and this thread allocates through it."""
    allocator = runtime.cupy().cuda.get_allocator()
    return allocator if isinstance(allocator, Watch) else None
