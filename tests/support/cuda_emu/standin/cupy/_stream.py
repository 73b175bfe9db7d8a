"""cupy.cuda.Stream, Event and what belongs to them, over _queue.py."""

from __future__ import annotations

import itertools
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from . import _clock, _errors, _graph, _launches
from ._clock import HOST
from ._errors import CUDARuntimeError
from ._queue import DEVICES, LOCK, Queue
from ._state import CURRENT, PER_THREAD, current_device, current_queue, queue_of

EVENTS: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()  # by handle
_handles = itertools.count(0x5000_0000, 0x100)


class Event:
    """A point in a stream; recorded again, it is another point."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self.ptr = next(_handles)
        EVENTS[self.ptr] = self
        self._timed = not disable_timing
        self._queue: Queue | None = None
        self._number = self._epoch = 0
        self._clock: _clock.Clock = {}
        self._capture: Any = None
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        queue = current_queue(stream)
        with LOCK:
            self._queue, self._capture, self._time = queue, queue.capture, None
            if queue.capture is not None:
                self._clock = queue.capture.point(queue)
                return
            operation = queue.push(self._stamp, "event")
            self._number, self._epoch = operation.number, operation.epoch
            self._clock = {**operation.clock, queue.id: operation.number}

    def _stamp(self) -> None:
        self._time = time.perf_counter()

    def _make_wait(self, queue: Queue) -> None:
        with LOCK:
            if self._capture is not None:
                if self._capture.over:
                    self._refuse_captured()
                if queue.capture not in (None, self._capture):
                    queue.capture.refuse(_errors.CAPTURE_ISOLATION)
                self._capture.join(queue, self._clock)
            elif queue.capture is not None:
                if self._queue is not None:
                    queue.capture.refuse(_errors.CAPTURE_ISOLATION)
            elif self._queue is not None and self._epoch == HOST.epoch:
                queue.catch_up()
                queue.wait(self._queue, self._number, self._clock)

    @property
    def done(self) -> bool:
        self._refuse_captured()
        if self._queue is not None and self._queue.finished < self._number:
            self._queue.run_to(self._queue.finished + 1)
            if self._queue.finished < self._number:
                return False
        self._finish()
        return True

    def synchronize(self) -> None:
        if _launches.ACTIVE:
            _launches.count("waits")
        self._finish()

    def _finish(self) -> None:
        self._refuse_captured()
        if self._queue is not None:
            with LOCK:
                self._queue.run_to(self._number)
                if self._epoch == HOST.epoch:
                    _clock.host_learns(self._clock)

    def _refuse_captured(self) -> None:
        if self._capture is not None:
            self._capture.refuse(_errors.CAPTURED_EVENT)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two events that have happened; emulated time, good for nothing but its sign."""
    for event in (start_event, end_event):
        if not event._timed or event._queue is None:
            raise CUDARuntimeError(_errors.INVALID_HANDLE)
        if event._time is None:
            raise CUDARuntimeError(_errors.NOT_READY)
    return (end_event._time - start_event._time) * 1e3


class _BaseStream:
    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr, self.device_id = ptr, device_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BaseStream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def use(self) -> _BaseStream:
        self._check_device()
        _make_current(self)
        return self

    def __enter__(self) -> _BaseStream:
        device = self._check_device()
        CURRENT.stacks[device].append(self)
        CURRENT.entered.append(device)
        _make_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Back to the stream of the next outer `with`, whatever `use()` has made current since."""
        stack = CURRENT.stacks[CURRENT.entered.pop()]
        stack.pop()
        _make_current(stack[-1])

    def _check_device(self) -> int:
        device = current_device()
        if self.device_id not in (-1, device):
            raise RuntimeError(f"The device that the stream is created on ({self.device_id}) does not match with the "
                               f"current device ({device})")
        return device

    @property
    def done(self) -> bool:
        return queue_of(self.ptr).query()

    def synchronize(self) -> None:
        queue_of(self.ptr).synchronize()

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        event._make_wait(queue_of(self.ptr))

    def launch_host_func(self, callback: Callable[[Any], Any], arg: Any) -> None:
        queue_of(self.ptr).push(lambda: callback(arg), "host function")

    def add_callback(self, callback: Callable[[Any, int, Any], Any], arg: Any) -> None:
        queue = queue_of(self.ptr)
        if queue.capture is not None:
            queue.capture.refuse()
        queue.push(lambda: callback(self, 0, arg), "callback")

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        _graph.begin(self.ptr, _graph.RELAXED if mode is None else mode)

    def end_capture(self) -> _graph.Graph:
        return _graph.end(self.ptr)

    def is_capturing(self) -> bool:
        return queue_of(self.ptr).is_capturing()

    @property
    def is_non_blocking(self) -> bool:
        return not queue_of(self.ptr).blocking

    @property
    def priority(self) -> int:
        return queue_of(self.ptr).priority


def _make_current(stream: _BaseStream | None) -> None:
    """On the stream's device, a default stream on the device that is current."""
    device = current_device() if stream is None or stream.device_id < 0 else stream.device_id
    CURRENT.streams[device] = stream
    CURRENT.queues[device] = queue_of(_default().ptr if stream is None else stream.ptr)


def _default() -> Stream:
    return Stream.ptds if PER_THREAD else Stream.null


class Stream(_BaseStream):
    """CUDA stream; a plain one orders itself with the legacy null stream, one with `non_blocking` does not."""

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self._foreign_stream_ref = None
        if null or ptds:
            super().__init__(0 if null else 2, -1)
            return
        super().__init__(next(_handles), current_device())
        device = DEVICES[self.device_id]
        device.queues[self.ptr] = Queue(device, self.ptr, not non_blocking, priority or 0)

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and self.device_id >= 0:
            DEVICES[self.device_id].retire(self.ptr)

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        try:
            version, handle = obj.__cuda_stream__()
        except AttributeError as error:
            raise TypeError(f"Object of type {type(obj).__name__} does not implement the CUDA stream protocol "
                            "(__cuda_stream__ method)") from error
        if version != 0:
            raise TypeError(f"__cuda_stream__() returned unsupported version {version}, only version 0 is supported")
        stream = cls.__new__(cls)
        _BaseStream.__init__(stream, handle, -1)
        stream._foreign_stream_ref = obj
        return stream


class ExternalStream(_BaseStream):
    """A stream that somebody else made, by its handle."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        warnings.warn("ExternalStream is deprecated. Use Stream.from_external() instead to interoperate with external "
                      "streams that implement the CUDA stream protocol.", DeprecationWarning, stacklevel=2)
        super().__init__(ptr, device_id)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


def get_current_stream(device_id: int = -1) -> _BaseStream:
    found = CURRENT.streams[current_device() if device_id == -1 else device_id]
    return _default() if found is None else found
