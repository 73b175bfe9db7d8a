"""The copy engine of a device: one stream for copies to the host, one for copies from it, and what they still use.

CuPy's pool hands a freed array's memory to the next allocation on the stream where it was made, whatever another stream
still does with it. So an array that is being copied is held here until the copy is known to be done, or until that
stream was made to wait for it.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from ..cuda import runtime
from ..keyed_singleton import KeyedSingleton


class Mark:
    """The end of copy `number` of a lane. It is made before the copy, so that an interrupt cannot lose it."""

    __slots__ = ("_event", "lane", "number")

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane, self.number, self._event = lane, number, None

    @property
    def event(self) -> Any:
        """Recorded just behind the copy; if an interrupt came between, behind all that is on the lane now."""
        if self._event is None:
            with self.lane.device, self.lane.lock:  # whoever has that may be about to put the copy on the lane
                if self._event is None:
                    self.record()
        return self._event

    def record(self) -> None:
        """By who holds the lane's lock."""
        self._event = record(self.lane.stream)


def latest(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """The last mark of each lane, which runs its copies in order."""
    last: dict[Lane, Mark] = {}
    for mark in marks:
        if mark.lane not in last or last[mark.lane].number < mark.number:
            last[mark.lane] = mark
    return tuple(last.values())


class Lane:
    """A stream that does nothing but copy, in one direction. Whoever holds `lock` may add a copy and its mark."""

    __slots__ = ("count", "device", "lock", "stream")

    def __init__(self, module: Any, device: Any) -> None:
        self.stream, self.count, self.lock = module.cuda.Stream(non_blocking=True), 0, threading.Lock()
        self.device = device

    def next_mark(self) -> Mark:
        self.count += 1
        return Mark(self, self.count)


class Use:
    """An array that is being copied until `mark`; `stream` was current when that began."""

    __slots__ = ("__weakref__", "array", "engine", "mark", "stale", "stream")

    def __init__(self, array: Any, engine: CopyEngine, stream: Any, mark: Mark) -> None:
        self.array, self.engine, self.stream, self.mark = array, engine, stream, mark
        self.stale = False  # whether the array has been written to since
        meet(engine.index, stream)

    def end(self) -> None:
        """Lets go of the array; what its stream does from now on comes behind the copy.

        Where there are several streams nobody can say which of them made the array: then the CPU waits.
        """
        if self.array is not None:
            with self.engine.device:
                if len(_met[self.engine.index]) > 1:
                    self.mark.event.synchronize()
                else:
                    wait(self.stream, self.mark.event)
            self.array = None

    def keep(self, copies: dict[int, Any]) -> None:
        """Before an operation on the current stream writes to the array: it comes behind the copy."""
        self.stale = True
        with self.engine.device:
            current = runtime.cupy().cuda.get_current_stream()
            if current.ptr != self.stream.ptr:
                wait(current, self.mark.event)
        self.end()


class CopyEngine:
    """The two lanes of one device, and the arrays that their copies use, oldest first."""

    def __init__(self, index: int) -> None:
        module = runtime.require_device(index)
        self.index, self.device = index, module.cuda.Device(index)
        with self.device:
            self.out, self.back = Lane(module, self.device), Lane(module, self.device)
        self.uses: deque[Use] = deque()  # finalizers append
        self._lock = threading.Lock()

    def settle(self, ahead: int) -> None:
        """Lets go of arrays whose copies are done, and of the oldest where more than `ahead` are left."""
        uses = self.uses
        while uses:
            with self._lock:
                if not uses:
                    return
                first = uses[0]
                done = first.array is None or first.mark.event.done
                if not done:
                    if len(uses) <= ahead:
                        return
                    first.end()
                uses.popleft()
            first.array = None


_PER_THREAD = 2  # the handle of every thread's own default stream
_met: defaultdict[int, set[tuple[int, int | None]]] = defaultdict(set)  # by device, what streams may have made arrays
_engines = KeyedSingleton(CopyEngine)


def engine(index: int) -> CopyEngine:
    """The copy engine of device `index`; its streams last as long as the process."""
    return _engines[index]


def meet(index: int, stream: Any) -> None:
    """Arrays may be made on `stream` of device `index` from now on, also when it is gone: handles are used again."""
    thread = threading.get_ident() if stream.ptr == _PER_THREAD else None
    _met[index].add((stream.ptr, thread))


def settle(index: int) -> None:
    """Lets go of all arrays of device `index` that are being copied; their streams wait for it, unless it is done."""
    if index in _engines:
        _engines[index].settle(0)


def record(stream: Any) -> Any:
    """An event at the present end of `stream`."""
    return stream.record(runtime.cupy().cuda.Event(disable_timing=True))


def wait(stream: Any, event: Any) -> None:
    """Makes what is put on `stream` from now on come behind `event`; the CPU goes on."""
    stream.wait_event(event)
