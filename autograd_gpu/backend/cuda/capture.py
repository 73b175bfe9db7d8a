"""Capture of a CUDA graph: what one stream gets is recorded, and replayed by one launch.

    memory    from a pool of the graph's own: what is freed in the capture is reused in it only, and stays the graph's.
              cudaMalloc is allowed in the relaxed mode, so the pool may grow.
    products  cuBLAS has a handle already, and a workspace from the graph's pool (cublas_handles.py)
    numbers   that change between replays lie in a block that is filled before each launch (live_numbers.py)
    copies    to the host and back run on lanes of the capture's own, in page-locked memory of the pool
              (transfer/captured.py)

A stream is captured, not a thread: what other threads put on other streams is not recorded.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any

from .. import counters
from ..transfer import captured
from . import cublas_handles, live_numbers, memory_stats, runtime
from .live_numbers import LiveNumbers

_CAPTURE_ERRORS = range(900, 909)  # cudaErrorStreamCapture..., cudaErrorCapturedEvent


_RELAXED = 2  # cudaStreamCaptureModeRelaxed


class GraphPool:
    """Memory for graphs, which replay one after the other; `stream` is that of the last replay."""

    __slots__ = ("__weakref__", "memory", "slabs", "stream")

    def __init__(self) -> None:
        self.memory, self.slabs, self.stream = runtime.cupy().cuda.MemoryPool(), captured.GraphSlabs(), None
        memory_stats.add_graphs(self)

    def order(self, stream: Any) -> None:
        """Makes later work on `stream` wait for the replays on other streams."""
        last = self.stream
        if last is not None and last.ptr != stream.ptr:
            stream.wait_event(last.record(runtime.cupy().cuda.Event(disable_timing=True)))
        self.stream = stream


def is_capturing() -> bool:
    """Whether the current stream is being captured; False if CuPy is not in use."""
    return runtime.loaded() is not None and runtime.is_available() and is_captured(runtime.current.stream())


def is_captured(stream: Any) -> bool:
    """Whether `stream` is being captured; the default stream never is."""
    return stream.ptr not in (0, 1) and bool(stream.is_capturing())


class StaleGraphError(RuntimeError):
    """A graph cannot be replayed any more: numbers that it reads say that other operations are due."""


class Refused(RuntimeError):
    """Why an op does not begin while a stream is being captured."""


class NotReadyError(Refused):
    """Something is missing that the next call outside of a capture may make."""


def check_device(index: int | None) -> None:
    """Refused if this thread captures a graph of another device, whose replays would leave out what is to come."""
    live = live_numbers.current()
    if live is not None and live.device != index:
        raise Refused(f"a CUDA graph holds the work of one device, here cuda:{live.device}, and this is on "
                      f"cuda:{index}: capture a graph on each device")


def concerns_capture(error: BaseException) -> bool:
    """Whether an op, CuPy or CUDA raised the error because a stream is being captured; CuPy says so by text only."""
    if not isinstance(error, RuntimeError):
        return False
    return isinstance(error, Refused) or getattr(error, "status", None) in _CAPTURE_ERRORS or "captur" in str(error)


def _end(pool: GraphPool, stream: Any) -> None:
    """Orders the stream of a capture, to which the memory of its graph goes back, after the replays."""
    if pool.stream is not None and not any(map(is_captured, (pool.stream, stream))):
        pool.order(stream)


class Recording:
    """A graph of the work on a stream, and what it needs as long as it is replayed."""

    def __init__(self, stream: Any, pool: GraphPool) -> None:
        self.device = runtime.current.device()
        self.pool, self.numbers = pool, LiveNumbers(self.device)
        self._stream = stream
        self._open = ExitStack()
        self._copies: captured.CapturedCopies | None = None  # in the capture
        self._graph: Any = None
        weakref.finalize(self, _end, pool, stream).atexit = False

    def begin(self, mode: int) -> None:
        """Begins to record; the stream must be the current one."""
        cublas_handles.prepare(self.device)
        self.pool.order(self._stream)  # and the first replay after what was allocated here
        copies = self._copies = captured.CapturedCopies(self.device, self._stream, self.pool.slabs, mode == _RELAXED)

        def allocated() -> None:
            check_device(runtime.current.device())
            copies.allocated()

        allocator = memory_stats.GraphAllocator(self.pool.memory, allocated)
        with ExitStack() as stack:
            stack.enter_context(runtime.cupy().cuda.using_allocator(allocator))
            stack.enter_context(captured.activate(copies))
            stack.enter_context(cublas_handles.captured(self.device, self._stream))
            stack.enter_context(live_numbers.activate(self.numbers))
            self._stream.begin_capture(mode)
            self._open = stack.pop_all()

    def end(self) -> None:
        """Ends the recording, and makes the graph ready to be launched."""
        copies, self._copies = self._copies, None
        with self._open:
            assert copies is not None
            copies.join()
            self._graph = self._stream.end_capture()

    def abandon(self) -> str | None:
        """Ends the recording after an error, and drops the graph; what CUDA said if it called the capture invalid."""
        self._copies = None
        with self._open:
            try:
                self._stream.end_capture()
            except Exception as error:  # the one that led here is raised
                return str(error)
        return None

    def launch(self, stream: Any) -> None:
        """Puts a replay on `stream`, the current one, after the replays before it on other streams."""
        if runtime.current.device() != self.device:
            raise RuntimeError(f"the CUDA graph was captured on cuda:{self.device}; replay it inside "
                               f"`with ag.cuda.device({self.device}):`")
        self.pool.order(stream)
        try:
            self.numbers.fill(stream)
        except RuntimeError as error:  # a function that gives numbers refuses
            raise StaleGraphError(f"the CUDA graph cannot be replayed: {error}") from error
        if counters.TRACING.tracer is None:
            self._graph.launch(stream)
        else:
            with counters.TRACING.tracer.span("replay", "CUDAGraph.replay"):
                self._graph.launch(stream)
        self.pool.slabs.used(stream)
        self.numbers.settle(stream)

    def dot(self) -> str:
        """The nodes of the graph in the language of Graphviz, with their parameters."""
        return str(self._graph.debug_dot_str(runtime.cupy().cuda.runtime.cudaGraphDebugDotFlagsVerbose))
