"""cuBLAS handles: one per stream, shared by all threads that use the stream.

CuPy makes a handle per thread and device, and destroys it with the thread, which synchronizes the device; users may
change its math mode. Making a handle is slow, and each has memory on the device. So the package has its own:

    1. A handle belongs to a stream handle (cudaStream_t), to which it is set once, and lasts as long as the process.
       CUDA releases a destroyed stream when its work is done, so a new stream with the same handle finds the workspace
       free.
    2. Each stream has its own, since cuBLAS is bitwise reproducible across concurrent streams only so. Beyond
       MAX_HANDLES, and if their first product is captured, streams share handles, which are then set at each change.
    3. Each stream has a workspace from the current allocator, which lasts as long: without one, a product that is
       captured allocates memory as a node of the graph. Setting the stream drops the workspace, so it is set after the
       stream. A graph has a workspace of its own (`captured`); one that CuPy's begin_capture made uses that of its
       stream, and must not run beside products of that stream.
    4. One thread uses a handle at a time. The locks are reentrant, since a signal handler may call a product, too.
    5. The per-thread default streams of all threads have the same handle value, and cuBLAS would take them for one
       stream. So each thread has its own cuBLAS handle for its default stream, destroyed with the thread.
    6. No handle is made while its stream is being captured, since making one allocates memory.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from . import libcublas, runtime

WIDE_PARTIAL_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION of cublasMath_t
_STREAM_PER_THREAD = 2  # cudaStreamPerThread, the handle of every thread's own default stream
MAX_HANDLES = 8  # per device


class Handle:
    """A cuBLAS handle (`number`) of the current device, the lock to hold during a call, and the stream that it has."""

    __slots__ = ("lock", "number", "stream")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stream: int | None = None
        number = ctypes.c_void_p()
        libcublas.call("cublasCreate_v2", ctypes.byref(number))
        self.number = number.value or 0
        libcublas.call("cublasSetMathMode", self.number, WIDE_PARTIAL_SUMS)


class Place:
    """What a stream computes its products with: a handle, a workspace, and the functions of cuBLAS."""

    __slots__ = ("__weakref__", "bytes", "gemm", "gemm_batched", "handle", "lock", "number", "stream", "workspace")

    def __init__(self, device: int, handle: Handle, stream: int, workspace: Any) -> None:
        self.bytes = _workspace_bytes(device)
        self.handle, self.lock, self.number = handle, handle.lock, handle.number
        self.stream, self.workspace = stream, workspace
        library = libcublas.library()
        self.gemm, self.gemm_batched = library.cublasGemmEx, library.cublasGemmStridedBatchedEx

    def take(self) -> None:
        """Sets the handle to this stream and workspace if it has another stream; the lock must be held."""
        if self.handle.stream != self.stream:
            self.handle.stream = None
            libcublas.call("cublasSetStream_v2", self.number, self.stream)
            libcublas.call("cublasSetWorkspace_v2", self.number, self.workspace.ptr, self.bytes)
            self.handle.stream = self.stream

    def leave(self) -> None:
        """Makes the next product with the handle set stream and workspace."""
        with self.lock:
            self.handle.stream = None


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.places: dict[int, Place] = {}  # by device


_LOCK = threading.RLock()
_SHARED: dict[tuple[int, int], Place] = {}  # by device and stream
_MADE: defaultdict[int, list[Handle]] = defaultdict(list)  # by device
_OF_THREAD = _OfThread()
_OF_CAPTURE: ContextVar[list[Place] | None] = ContextVar("places of the capture", default=None)


def place(device: int) -> Place:
    """The place of the current stream of `device`, which must be the current device."""
    stream = runtime.current.stream(device)
    try:
        return _SHARED[device, stream.ptr]
    except KeyError:
        return _of_thread(device, stream) if stream.ptr == _STREAM_PER_THREAD else _share(device, stream)


@functools.cache
def _workspace_bytes(device: int) -> int:
    """What the cuBLAS manual recommends: 32 MiB from compute capability 9.0 on, else 4 MiB."""
    return (32 if int(runtime.cupy().cuda.Device(device).compute_capability) >= 90 else 4) << 20


def _workspace(device: int) -> Any:
    return runtime.cupy().cuda.alloc(_workspace_bytes(device))


def _captured() -> RuntimeError:
    return RuntimeError(
        "the first matrix product on a device, or on a thread's own default stream, cannot be captured in a CUDA "
        "graph, since it makes a cuBLAS handle, which allocates memory. Run the step once before begin_capture()"
    )


def _share(device: int, stream: Any) -> Place:
    with _LOCK:
        key, capturing, made = (device, stream.ptr), stream.is_capturing(), _MADE[device]
        if key not in _SHARED:
            if capturing and not made:
                raise _captured()
            workspace = _workspace(device)
            if len(made) < MAX_HANDLES and not capturing:
                made.append(Handle())
                handle = made[-1]
            else:
                handle = made[len(_SHARED) % len(made)]
            _SHARED[key] = place = Place(device, handle, stream.ptr, workspace)
            own = _OF_CAPTURE.get()
            if capturing and own is not None:
                place.leave()  # the handle may have this stream with another workspace
                own.append(place)
        return _SHARED[key]


def prepare(device: int) -> None:
    """Makes a handle on `device`, the current device, if there is none: a capture cannot."""
    with _LOCK:
        if not _MADE[device]:
            _MADE[device].append(Handle())


@contextmanager
def captured(device: int, stream: Any) -> Iterator[None]:
    """While `stream` is captured in this context, it has a place of the graph's own, made at its first product.

    So do the streams that join it and had none. Their workspaces are the graph's memory: nothing in them outlasts a
    product, so what is captured later may have them.
    """
    places: list[Place] = []
    with _LOCK:
        before = _SHARED.pop((device, stream.ptr), None)
    token = _OF_CAPTURE.set(places)
    try:
        yield
    finally:
        _OF_CAPTURE.reset(token)
        with _LOCK:
            for place in places:
                _SHARED.pop((device, place.stream), None)
                place.leave()
            if before is not None:
                _SHARED[device, stream.ptr] = before


def _of_thread(device: int, stream: Any) -> Place:
    places = _OF_THREAD.places
    if device not in places:
        if stream.is_capturing():
            raise _captured()
        workspace = _workspace(device)
        places[device] = own = Place(device, Handle(), stream.ptr, workspace)
        weakref.finalize(own, _destroy, own.number, workspace).atexit = False
    return places[device]


def _destroy(number: int, workspace: Any) -> None:
    """Destroys a handle, which synchronizes its device, before its workspace is freed."""
    libcublas.call("cublasDestroy_v2", number)
    del workspace
