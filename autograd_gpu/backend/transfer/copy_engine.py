"""The copy engine of a device: a stream for copies to the host, a stream for copies to the device, and their arrays.

CuPy's pool gives the memory of a freed array to the next allocation on the stream where the array was made, even if
another stream still uses it. So an array that is being copied is held here until the copy is complete, or until its
stream waits for the copy.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from ..cuda import runtime
from ..keyed_singleton import KeyedSingleton


class Fence:
    """The end of copy `number` on a lane. It is made before the copy, so that an interrupt cannot lose it."""

    __slots__ = ("_event", "lane", "number")

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane, self.number, self._event = lane, number, None

    @property
    def event(self) -> Any:
        """The event recorded after the copy; after an interrupt, one recorded now at the end of the lane."""
        if self._event is None:
            with self.lane.device, self.lane.lock:  # its holder may be about to queue the copy
                if self._event is None:
                    self.record()
        return self._event

    def record(self) -> None:
        """Records the event at the end of the lane; the caller holds the lane's lock."""
        self._event = record(self.lane.stream)


def latest(fences: Iterable[Fence]) -> tuple[Fence, ...]:
    """The last fence of each lane, since a lane runs its copies in order."""
    last: dict[Lane, Fence] = {}
    for fence in fences:
        if fence.lane not in last or last[fence.lane].number < fence.number:
            last[fence.lane] = fence
    return tuple(last.values())


class Lane:
    """A stream for copies in one direction. Hold `lock` to queue a copy and its fence."""

    __slots__ = ("count", "device", "lock", "stream")

    def __init__(self, module: Any, device: Any) -> None:
        self.stream, self.count, self.lock = module.cuda.Stream(non_blocking=True), 0, threading.Lock()
        self.device = device

    def next_fence(self) -> Fence:
        """The fence of the next copy; the caller holds `lock`."""
        self.count += 1
        return Fence(self, self.count)


class PendingCopy:
    """An array in use by a copy that ends at `fence`; `stream` was the current stream when the copy was queued."""

    __slots__ = ("__weakref__", "array", "engine", "fence", "stale", "stream")

    def __init__(self, array: Any, engine: CopyEngine, stream: Any, fence: Fence) -> None:
        self.array, self.engine, self.stream, self.fence = array, engine, stream, fence
        self.stale = False  # whether the array was written to since the copy was queued
        engine.note(stream)

    def end(self) -> None:
        """Releases the array; later work on its stream waits for the copy."""
        if self.array is not None:
            with self.engine.device:
                self.engine.order(self)
            self.array = None

    def keep(self, copies: dict[int, Any]) -> None:
        """Makes the current stream wait for the copy; called before an operation on it writes to the array."""
        self.stale = True
        if self.engine.over:
            return  # of a CUDA graph, whose replays end with their copies
        with self.engine.device:
            current = runtime.cupy().cuda.get_current_stream()
            if current.ptr != self.stream.ptr:
                wait(current, self.fence.event)
        self.end()


class CopyEngine:
    """The two lanes of a device, and their pending copies, oldest first."""

    over = False  # whether its copies belong to the past, since it was that of a capture (captured.py)

    def __init__(self, index: int) -> None:
        module = runtime.require_device(index)
        self.index, self.device = index, module.cuda.Device(index)
        with self.device:
            self.out, self.back = Lane(module, self.device), Lane(module, self.device)
        self.pending: deque[PendingCopy] = deque()  # finalizers append
        self._lock = threading.Lock()

    def note(self, stream: Any) -> None:
        """Registers a stream whose arrays are copied."""
        add_stream(self.index, stream)

    def finished(self, copy: PendingCopy) -> bool:
        """Whether the copy is known to be complete."""
        return bool(copy.fence.event.done)

    def order(self, copy: PendingCopy) -> None:
        """Makes later work on the stream of the copy's array wait for the copy.

        If the device has several streams, the one that made the array is unknown, so the CPU waits instead.
        """
        if len(_streams[self.index]) > 1:
            copy.fence.event.synchronize()
        else:
            wait(copy.stream, copy.fence.event)

    def others(self, fences: Iterable[Fence]) -> list[Fence]:
        """The fences that a copy on the outgoing lane has to wait for."""
        return [fence for fence in fences if fence.lane is not self.out]

    def settle(self, ahead: int) -> None:
        """Releases arrays whose copies are complete, and the oldest ones beyond `ahead` (see `PendingCopy.end`)."""
        pending = self.pending
        while pending:
            with self._lock:
                if not pending:
                    return
                first = pending[0]
                done = first.array is None or self.finished(first)
                if not done:
                    if len(pending) <= ahead:
                        return
                    first.end()
                pending.popleft()
            first.array = None


_STREAM_PER_THREAD = 2  # cudaStreamPerThread, the handle of every thread's own default stream
# By device: the streams on which arrays may have been made, as (handle, thread of a per-thread default stream or None).
_streams: defaultdict[int, set[tuple[int, int | None]]] = defaultdict(set)
_engines = KeyedSingleton(CopyEngine)


def engine(index: int) -> CopyEngine:
    """The copy engine of device `index`; its streams live as long as the process."""
    return _engines[index]


def add_stream(index: int, stream: Any) -> None:
    """Registers a stream of device `index` on which arrays may be made; never removed, since handles are reused."""
    thread = threading.get_ident() if stream.ptr == _STREAM_PER_THREAD else None
    _streams[index].add((stream.ptr, thread))


def settle(index: int) -> None:
    """Releases all arrays of device `index` that are being copied; their streams wait for incomplete copies."""
    if index in _engines:
        _engines[index].settle(0)


def record(stream: Any) -> Any:
    """A new event recorded on `stream`."""
    return stream.record(runtime.cupy().cuda.Event(disable_timing=True))


def wait(stream: Any, event: Any) -> None:
    """Makes later work on `stream` wait for `event`; does not block the CPU."""
    stream.wait_event(event)
