"""Streams and events with PyTorch's methods, as wrappers of CuPy's objects.

The current stream is CuPy's thread-local state, so `with cupy.cuda.Stream():` and `with ag.cuda.stream(...):` have the
same effect. A wrapper has CuPy's attribute `ptr`, so CuPy's functions accept it, too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..arrays.device import Device
from ..transfer import copy_engine
from . import capture, runtime

_NOT_READY = 600  # the CUDA runtime's status of work that is still running


class _OpenBlocks(threading.local):
    """The devices and streams that this thread's open `with stream:` blocks restore at exit, innermost last."""

    def __init__(self) -> None:
        self.stack: list[tuple[Any, Any]] = []


_OPEN_BLOCKS = _OpenBlocks()


class Stream:
    """A queue of work on one device; work on two streams may overlap unless an event orders it.

    As in PyTorch, it does not wait for the default stream, nor the default stream for it. A lower `priority` runs
    first. `cupy_stream` is CuPy's stream, whose other methods (`begin_capture`, ...) this class has,
    too. CuPy's pool reuses freed memory at once for the next allocation on the stream that allocated it. So before you
    drop an array that another stream still uses, let its own stream wait for that one; and reuse streams instead of
    making new ones. Streams are equal if their handles are equal, also to CuPy's (as `ours == theirs`; CuPy compares
    only its own class).

    >>> if ag.cuda.is_available():
    ...     side = ag.cuda.Stream()
    ...     with ag.cuda.stream(side):
    ...         y = ag.ones(3, device="cuda") * 2
    ...     ag.cuda.current_stream().wait_stream(side)  # before y is used here
    ...     total = float(y.sum())
    ...     side.wait_stream(ag.cuda.current_stream())  # before y is dropped
    """

    __slots__ = ("__weakref__", "cupy_stream", "device")

    cupy_stream: Any
    device: Device

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        index = runtime.device_index(device)
        module = runtime.cupy()
        with module.cuda.Device(index):
            self._set(module.cuda.Stream(non_blocking=True, priority=priority), index)

    def _set(self, cupy_stream: Any, index: int) -> Stream:
        self.cupy_stream, self.device = cupy_stream, Device("cuda", index)
        copy_engine.add_stream(index, cupy_stream)
        return self

    @property
    def ptr(self) -> int:
        """The cudaStream_t as an integer, under CuPy's name."""
        return int(self.cupy_stream.ptr)

    @property
    def cuda_stream(self) -> int:
        """The cudaStream_t as an integer, under PyTorch's name."""
        return int(self.cupy_stream.ptr)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr  # the version of the protocol, and the handle

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Stream.__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.cupy_stream, name)

    def query(self) -> bool:
        """Whether all work queued so far is complete; RuntimeError if some of it failed."""
        api = runtime.cupy().cuda.runtime
        with self._on_device():
            return _done(api, api.streamQuery(self.ptr))

    def synchronize(self) -> None:
        """Blocks the CPU until all work queued so far is complete."""
        with self._on_device():
            self.cupy_stream.synchronize()

    def wait_event(self, event: Any) -> None:
        """Makes work queued on this stream from now on wait for `event`; does not block the CPU."""
        if isinstance(event, Event):
            if event.cupy_event is None:
                return  # never recorded: nothing to wait for
            event = event.cupy_event
        with self._on_device():
            self.cupy_stream.wait_event(event)

    def wait_stream(self, stream: Any) -> None:
        """Makes work queued on this stream from now on wait for the work queued so far on `stream`; does not block."""
        self.wait_event(as_stream(stream).record_event())

    def record_event(self, event: Any = None) -> Any:
        """Records `event`, by default a new Event, on this stream, and returns it."""
        event = Event() if event is None else event
        with self._on_device():
            event.record(self if isinstance(event, Event) else self.cupy_stream)
        return event

    def _on_device(self) -> Any:
        """A context in which this stream's device is current: handle 0 is the default stream of the current device."""
        return runtime.cupy().cuda.Device(self.device.index)

    def __enter__(self) -> Stream:
        capture.check_device(self.device.index)
        device = self._on_device()
        device.__enter__()
        _OPEN_BLOCKS.stack.append((device, runtime.cupy().cuda.get_current_stream()))
        self.cupy_stream.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        device, before = _OPEN_BLOCKS.stack.pop()
        self.cupy_stream.__exit__(*error)
        with self._on_device():
            before.use()  # CuPy restores the stream of the next outer `with`, not one set by set_stream
        device.__exit__(*error)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Stream):
            return (self.ptr, self.device) == (other.ptr, other.device)
        return _is_cupy(other) and self.ptr == other.ptr and other.device_id in (-1, self.device.index)

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<autograd_gpu.cuda.{type(self).__name__} device={self.device} cuda_stream={self.ptr:#x}>"


class ExternalStream(Stream):
    """A stream of another library, given by its cudaStream_t as an integer; that library must keep it alive.

    `device` is the stream's device, by default the current one. An object with `__cuda_stream__`, such as a PyTorch
    stream, needs no wrapper: every function here accepts it. TypeError if `stream_ptr` is not an int.

    >>> if ag.cuda.is_available():
    ...     other = ag.cuda.ExternalStream(ag.cuda.Stream().cuda_stream)
    """

    __slots__ = ()

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        index = runtime.device_index(device)
        if not isinstance(stream_ptr, int):
            raise TypeError(f"ExternalStream needs a cudaStream_t as an integer, but got {stream_ptr!r}")
        self._set(runtime.cupy().cuda.Stream.from_external(_Handle(stream_ptr)), index)


class _Handle:
    """A stream handle with the `__cuda_stream__` protocol, for CuPy's from_external."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


class Event:
    """A CUDA event: a marker in a stream to wait for, or to measure time between two of them.

    The event is created at the first `record`, on the device of that stream; streams of any device may wait for it.
    With `blocking`, `synchronize` sleeps instead of spinning; `interprocess` allows
    `cupy.cuda.runtime.ipcGetEventHandle(event.ptr)` and excludes `enable_timing` (ValueError for both). `cupy_event` is
    CuPy's event, None before the first `record`.

    >>> if ag.cuda.is_available():
    ...     start, end = ag.cuda.Event(enable_timing=True), ag.cuda.Event(enable_timing=True)
    ...     start.record()
    ...     y = ag.ones(1000, device="cuda") * 2
    ...     end.record()
    ...     end.synchronize()
    ...     milliseconds = start.elapsed_time(end)
    """

    __slots__ = ("__weakref__", "blocking", "cupy_event", "device", "enable_timing", "interprocess")

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        runtime.count_devices()
        if enable_timing and interprocess:
            raise ValueError("an interprocess event cannot measure time: leave out enable_timing or interprocess")
        self.enable_timing, self.blocking, self.interprocess = enable_timing, blocking, interprocess
        self.device: Device | None = None
        self.cupy_event: Any = None

    @property
    def ptr(self) -> int:
        """The cudaEvent_t as an integer, under CuPy's name; creates the event on the current device if needed."""
        if self.cupy_event is None:
            self._create(runtime.device_index())
        return int(self.cupy_event.ptr)

    @property
    def cuda_event(self) -> int:
        """The cudaEvent_t as an integer, under PyTorch's name; 0 before the first `record`."""
        return 0 if self.cupy_event is None else int(self.cupy_event.ptr)

    def _create(self, index: int | None) -> None:
        module = runtime.cupy()
        with module.cuda.Device(index):
            self.cupy_event = module.cuda.Event(self.blocking, not self.enable_timing, self.interprocess)
        self.device = Device("cuda", index)

    def record(self, stream: Any = None) -> None:
        """Records the work queued so far on `stream` (default: the current stream).

        RuntimeError if the event was created on another device.
        """
        stream = current_stream() if stream is None else as_stream(stream)
        if self.cupy_event is None:
            self._create(stream.device.index)
        elif self.device != stream.device:
            raise RuntimeError(f"the event belongs to {self.device}, so {stream.device} cannot record it; make another")
        with stream._on_device():
            self.cupy_event.record(stream.cupy_stream)

    def wait(self, stream: Any = None) -> None:
        """Makes work queued from now on on `stream` (default: the current stream) wait for this event."""
        (current_stream() if stream is None else as_stream(stream)).wait_event(self)

    def query(self) -> bool:
        """Whether the recorded work is complete, True if nothing was recorded; RuntimeError if some of it failed."""
        if self.cupy_event is None:
            return True
        api = runtime.cupy().cuda.runtime
        return _done(api, api.eventQuery(self.cupy_event.ptr))

    def synchronize(self) -> None:
        """Blocks the CPU until the recorded work is complete; returns at once if nothing was recorded."""
        if self.cupy_event is not None:
            self.cupy_event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`.

        ValueError if either has no `enable_timing` or was not recorded; RuntimeError if either is not complete.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.cupy_event is None or end_event.cupy_event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time; synchronize() them.")
        return float(runtime.cupy().cuda.get_elapsed_time(self.cupy_event, end_event.cupy_event))

    def __repr__(self) -> str:
        state = "not recorded" if self.cupy_event is None else f"device={self.device} cuda_event={self.ptr:#x}"
        return f"<autograd_gpu.cuda.Event {state}>"


def _done(api: Any, status: int) -> bool:
    """Whether the status of a query is success; raises if the work failed, which CuPy's `done` reports as False."""
    if status not in (0, _NOT_READY):
        raise api.CUDARuntimeError(status)
    return status == 0


def _is_cupy(stream: object) -> bool:
    return hasattr(stream, "ptr") and hasattr(stream, "device_id")


def as_stream(stream: Any) -> Stream:
    """`stream` as a Stream, from ours, CuPy's, or an object with `__cuda_stream__` on the current device.

    TypeError for anything else.
    """
    if isinstance(stream, Stream):
        return stream
    wrapped = Stream.__new__(Stream)
    if _is_cupy(stream):
        return wrapped._set(stream, runtime.device_index(stream.device_id))
    if hasattr(stream, "__cuda_stream__"):
        return wrapped._set(runtime.cupy().cuda.Stream.from_external(stream), runtime.device_index())
    raise TypeError(
        f"expected a stream of ag.cuda or cupy.cuda, or an object with __cuda_stream__, but got {stream!r}; wrap an "
        "integer handle in ag.cuda.ExternalStream(handle)"
    )


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """Makes `stream` and its device current in this thread inside the block; None changes nothing.

    >>> with ag.cuda.stream(ag.cuda.Stream() if ag.cuda.is_available() else None):
    ...     y = ag.ones(3) * 2
    """
    if stream is None:
        yield
    else:
        with as_stream(stream):
            yield


def current_stream(device: Any = None) -> Stream:
    """This thread's current stream of `device` (default: the current device).

    >>> if ag.cuda.is_available():
    ...     assert ag.cuda.current_stream() == ag.cuda.default_stream()
    """
    index = runtime.device_index(device)
    return Stream.__new__(Stream)._set(runtime.cupy().cuda.get_current_stream(index), index)


def default_stream(device: Any = None) -> Stream:
    """The default stream of `device` (default: the current device).

    >>> if ag.cuda.is_available():
    ...     ag.cuda.default_stream().synchronize()
    """
    index = runtime.device_index(device)
    streams = runtime.cupy().cuda.Stream
    per_thread = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("0", "")
    return Stream.__new__(Stream)._set(streams.ptds if per_thread else streams.null, index)


def set_stream(stream: Any) -> None:
    """Makes `stream` and its device current in this thread; None changes nothing. Prefer the context `stream()`.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.set_stream(ag.cuda.default_stream())
    """
    if stream is not None:
        chosen = as_stream(stream)
        capture.check_device(chosen.device.index)
        chosen._on_device().use()
        chosen.cupy_stream.use()
