"""Numbers that change between the replays of a CUDA graph: a block of device memory, filled before each launch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from . import runtime

SLOTS = 4096  # of 8 bytes
_CURRENT: ContextVar[LiveNumbers | None] = ContextVar("live_numbers", default=None)


class LiveNumbers:
    """The numbers of one graph, and the functions that give them anew before each launch."""

    def __init__(self, device: int) -> None:
        module = runtime.cupy()
        with module.cuda.Device(device):
            self._block = module.cuda.alloc(8 * SLOTS)
        self._used = 0
        self._places: list[tuple[slice, Callable[[], Sequence[Any]]]] = []
        self._ring: deque[tuple[Any, Any]] = deque()  # page-locked memory, and the event after its last copy

    def place(self, count: int, refresh: Callable[[], Sequence[Any]]) -> int:
        """The device address of `count` slots, which hold what `refresh` answers when the graph is launched."""
        begin, self._used = self._used, self._used + count
        if self._used > SLOTS:
            raise RuntimeError(f"a CUDA graph holds up to {SLOTS} numbers that change between replays")
        self._places.append((slice(begin, self._used), refresh))
        return int(self._block.ptr) + 8 * begin

    def fill(self, stream: Any) -> None:
        """Puts a copy of the present numbers on `stream`."""
        if not self._places:
            return
        module = runtime.cupy().cuda
        done = bool(self._ring) and self._ring[0][1].done
        pinned = self._ring.popleft()[0] if done else module.PinnedMemory(8 * SLOTS)
        words = np.frombuffer(module.PinnedMemoryPointer(pinned, 0), np.uint64, self._used)
        for slots, refresh in self._places:
            words[slots] = np.asarray(refresh()).view(np.uint64)
        self._block.copy_from_host_async(pinned.ptr, 8 * self._used, stream)
        self._ring.append((pinned, stream.record(module.Event(disable_timing=True))))


def current() -> LiveNumbers | None:
    """The numbers of the graph that is being captured here, None outside of a capture."""
    return _CURRENT.get()


@contextmanager
def activate(instance: LiveNumbers) -> Iterator[None]:
    """Makes `instance` the current one inside the block."""
    token = _CURRENT.set(instance)
    try:
        yield
    finally:
        _CURRENT.reset(token)
