"""Offloading inside of a CUDA graph: the lanes of a capture, and page-locked memory that belongs to its graph.

A captured stream can wait for captured work only, and a replay uses the host addresses of the capture. So a capture has
lanes of its own, which join it with their first copy and are joined to its stream at its end; and its page-locked
memory belongs to the pool of its graph, like its device memory: graphs that share a pool are replayed in order, so that
each may use what the ones before have freed.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..cuda import runtime
from .copy_engine import CopyEngine, Fence, PendingCopy, record, wait
from .pinned_memory import GROWTH, Slab

FIRST_BYTES = 1 << 24  # of a slab: a graph's memory is not shared with others, so it begins small
_RETIRED: deque[tuple[Any, dict[int, Slab]]] = deque()  # slabs of pools that are gone, and the event of the last replay


class GraphSlabs:
    """The slabs of the graphs of one pool, by `slab_bytes`; their memory outlives the replays that use it."""

    def __init__(self) -> None:
        self._slabs: dict[int, Slab] = {}
        self._event: Any = None

    def slab(self, nbytes: int) -> Slab:
        """The slab for hooks with `slab_bytes=nbytes`, which grows to as much as theirs outside of a graph."""
        if nbytes not in self._slabs:
            _sweep()
            first = max(1, min(nbytes, FIRST_BYTES))
            self._slabs[nbytes] = Slab(first, max(1, GROWTH * nbytes // first))
        return self._slabs[nbytes]

    def used(self, stream: Any) -> None:
        """Called behind a replay on `stream`, or behind other work that uses the memory."""
        if self._slabs:
            self._event = record(stream)

    def __del__(self) -> None:
        if getattr(self, "_event", None) is not None:
            _RETIRED.append((self._event, self._slabs))


def _sweep() -> None:
    """Frees the slabs of pools that are gone and whose replays are complete."""
    for _ in range(len(_RETIRED)):
        event, slabs = _RETIRED.popleft()
        if not event.done:
            _RETIRED.append((event, slabs))


class CapturedEngine(CopyEngine):
    """The lanes of one capture; afterwards it is `over`, and no work can wait for its copies any more."""

    def __init__(self, index: int, slabs: GraphSlabs, streams: dict[int, Any]) -> None:
        super().__init__(index)
        self.slabs, self._streams = slabs, streams

    def note(self, stream: Any) -> None:
        """Does nothing: the allocator of the capture notes its streams."""

    def finished(self, copy: PendingCopy) -> bool:
        """False: events of a capture cannot be asked."""
        return False

    def order(self, copy: PendingCopy) -> None:
        """Makes the streams that may be given the memory wait for the copy."""
        for stream in self._streams.values():
            if stream.is_capturing():
                wait(stream, copy.fence.event)

    def others(self, fences: Iterable[Fence]) -> list[Fence]:
        """The fences on the incoming lane; the ones of earlier captures are over, and their replays come before."""
        return [fence for fence in fences if fence.lane is self.back]

    def join(self, stream: Any) -> None:
        """Ends the copies before `stream`, that of the capture, ends; their arrays are released."""
        for lane in (self.out, self.back):
            if lane.stream.is_capturing():
                wait(stream, record(lane.stream))
        self.over = True
        for copy in self.pending:
            copy.array = None
        self.pending.clear()


class CapturedCopies:
    """What offloading needs in a capture of `stream`: the engine, made when it is needed, and the slabs of the pool.

    `streams` are those on which the capture has allocated memory, by handle. Without `relaxed` a capture cannot
    page-lock memory.
    """

    def __init__(self, index: int, stream: Any, slabs: GraphSlabs, relaxed: bool) -> None:
        self.index, self.slabs, self.relaxed = index, slabs, relaxed
        self.streams: dict[int, Any] = {stream.ptr: stream}
        self._stream = stream

    @functools.cached_property
    def engine(self) -> CapturedEngine:
        return CapturedEngine(self.index, self.slabs, self.streams)

    def join(self) -> None:
        """Joins the lanes, if there are any, to the stream of the capture."""
        if "engine" in self.__dict__:
            self.engine.join(self._stream)

    def allocated(self) -> None:
        """Called when the current stream is given memory of the capture."""
        stream = runtime.current.stream()
        self.streams.setdefault(stream.ptr, stream)


_CURRENT: ContextVar[CapturedCopies | None] = ContextVar("captured_copies", default=None)


def current() -> CapturedCopies | None:
    """That of the capture of this thread, None outside of a capture."""
    return _CURRENT.get()


@contextmanager
def activate(copies: CapturedCopies) -> Iterator[None]:
    """Makes `copies` the current one inside the block."""
    token = _CURRENT.set(copies)
    try:
        yield
    finally:
        _CURRENT.reset(token)
