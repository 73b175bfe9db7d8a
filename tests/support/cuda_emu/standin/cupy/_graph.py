"""Graph capture: operations are collected, checked among themselves, and replayed as one operation.

What CUDA refuses while capturing is refused with its own status, and most refusals spoil the capture, as there:
waiting, asking, pageable copies, cudaMalloc (unless the mode is relaxed, CuPy's default), work of the legacy null
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _clock, _errors
from ._clock import Access, Clock, Operation
from ._errors import CUDARuntimeError, HazardError
from ._queue import Queue
from ._state import current_queue, queue_of

RELAXED = 2  # cudaStreamCaptureModeRelaxed


class Capture:
    """A capture under way: `origin` began it, other queues joined by waiting for an event of it."""

    def __init__(self, origin: Queue, mode: int) -> None:
        self.origin, self.mode = origin, mode
        self.valid, self.over = True, False
        self.operations: list[tuple[Operation, Sequence[Access]]] = []
        self.counts: dict[Queue, int] = {}
        self.clocks: dict[Queue, Clock] = {}
        self._accesses: dict[Any, list] = {}
        self.join(origin, {})

    def join(self, queue: Queue, clock: Clock) -> None:
        queue.capture = self
        self.counts.setdefault(queue, 0)
        self.clocks[queue] = _clock.joined(self.clocks.get(queue, {}), clock)

    def add(self, queue: Queue, run: Callable[[], Any], what: str, accesses: Sequence[Access]) -> Operation:
        if not self.valid:
            raise _errors.refused(_errors.CAPTURE_INVALIDATED, what)
        number = self.counts[queue] + 1
        operation = Operation(queue, number, self.clocks[queue], run, what)
        _clock.check(accesses, operation, self._list)
        _clock.record(accesses, operation, self._list)
        self.counts[queue] = number
        self.operations.append((operation, accesses))
        return operation

    def _list(self, block: Any) -> list:
        return self._accesses.setdefault(block, [])

    def point(self, queue: Queue) -> Clock:
        """The clock of an event that is recorded on `queue` now."""
        return {**self.clocks[queue], queue.id: self.counts[queue]}

    def invalidate(self) -> None:
        self.valid = False

    def refuse(self, status: int = _errors.CAPTURE_UNSUPPORTED) -> None:
        self.invalidate()
        raise CUDARuntimeError(status)

    def refuse_unless_relaxed(self) -> None:
        if self.mode != RELAXED:
            self.refuse()

    def end(self, queue: Queue) -> Graph:
        if queue is not self.origin:
            self.refuse(_errors.CAPTURE_UNMATCHED)
        joined = self.clocks[queue]
        whole = all(joined.get(q.id, 0) >= count for q, count in self.counts.items() if q is not queue)
        self.over = True
        for member in self.counts:
            member.capture = None
        if not self.valid:
            raise CUDARuntimeError(_errors.CAPTURE_INVALIDATED)
        if not whole:
            raise CUDARuntimeError(_errors.CAPTURE_UNJOINED)
        return Graph._of(self)


class Graph:
    """Captured operations; made by Stream.end_capture()."""

    _capture: Capture

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("currently this class cannot be initiated by the user and must be created via "
                                  "stream capture")

    @classmethod
    def _of(cls, capture: Capture) -> Graph:
        graph = cls.__new__(cls)
        graph._capture = capture
        graph._accesses = [access for _, accesses in capture.operations for access in accesses if access[0] is not None]
        return graph

    def launch(self, stream: Any = None) -> None:
        queue = current_queue(stream)
        self._check_alive()
        operations = [operation for operation, _ in self._capture.operations]

        def replay() -> None:
            for operation in operations:
                operation.run()

        queue.push(replay, f"a graph of {len(operations)} operations", self._accesses, kernels=1)

    def upload(self, stream: Any = None) -> None:
        current_queue(stream)

    def debug_dot_str(self, flags: int = 0) -> str:
        nodes = [f'"{number}: {operation.what}"' for number, (operation, _) in enumerate(self._capture.operations)]
        return "\n".join(["digraph dot {", *nodes, "}"])

    def _check_alive(self) -> None:
        """Memory allocated in the capture may be back in its pool, if nobody was given it since; other memory not."""
        for block, *_ in self._accesses:
            own = block.capture is self._capture
            if block.dead or block.reused or (block.freed is not None and not own):
                why = f"its pool has {block.reused or 'given it away again'}" if own else "it was freed"
                raise HazardError(f"the graph uses memory that is no longer its own, {why}: {block}")


def begin(handle: int, mode: int) -> None:
    queue = queue_of(handle)
    if queue.capture is not None:
        queue.capture.refuse()
    Capture(queue, mode)


def end(handle: int) -> Graph:
    queue = queue_of(handle)
    if queue.capture is None:
        raise CUDARuntimeError(_errors.INVALID_VALUE)
    return queue.capture.end(queue)
