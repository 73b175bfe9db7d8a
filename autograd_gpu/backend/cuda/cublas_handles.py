"""cuBLAS handles: one per stream, shared by all threads that use the stream.

CuPy makes a handle per thread and device, and destroys it with the thread, which synchronizes the device; users may
change its math mode. Making a handle is slow, and each has a workspace on the device. So the package has its own:

    1. A handle belongs to a stream handle (cudaStream_t) and lasts as long as the process. CUDA releases a destroyed
       stream when its work is done, so a new stream with the same handle finds the workspace free.
    2. Each stream has its own, since cuBLAS is bitwise reproducible across concurrent streams only so. Beyond
       MAX_HANDLES streams share handles, as CuPy's streams of a thread do.
    3. One thread uses it at a time: CuPy sets its stream, then calls. The lock is reentrant, since a signal handler
       may call a product, too.
    4. The per-thread default streams of all threads have the same handle value, and cuBLAS would take them for one
       stream. So each thread has its own cuBLAS handle for its default stream, destroyed with the thread.
    5. No handle is made while its stream is being captured, since making one allocates memory.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from typing import Any

from . import runtime

WIDE_PARTIAL_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION of cublasMath_t
_STREAM_PER_THREAD = 2  # cudaStreamPerThread, the handle of every thread's own default stream
MAX_HANDLES = 8  # per device: the workspace of one is 32 MiB on an H100, by the cuBLAS manual


class Handle:
    """A cuBLAS handle (`number`) of the current device, CuPy's functions for it, and the lock to hold during a call."""

    __slots__ = ("__weakref__", "gemm", "gemm_batched", "lock", "number")

    def __init__(self, bindings: Any) -> None:
        self.gemm, self.gemm_batched = bindings.gemmEx, bindings.gemmStridedBatchedEx
        self.lock = threading.RLock()
        self.number = int(bindings.create())
        bindings.setMathMode(self.number, WIDE_PARTIAL_SUMS)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.handles: dict[int, Handle] = {}  # by device


_LOCK = threading.Lock()
_SHARED: dict[tuple[int, int], Handle] = {}  # by device and stream
_MADE: defaultdict[int, list[Handle]] = defaultdict(list)  # by device
_OF_THREAD = _OfThread()


def handle(device: int) -> Handle:
    """The handle for the current stream of `device`, which must be the current device."""
    stream = runtime.current.stream(device)
    try:
        return _SHARED[device, stream.ptr]
    except KeyError:
        return _of_thread(device, stream) if stream.ptr == _STREAM_PER_THREAD else _share(device, stream)


def captured() -> RuntimeError:
    """The error to raise for a product on a stream that is being captured."""
    return RuntimeError(
        "a matrix product cannot be captured in a CUDA graph: CuPy calls no cuBLAS function while its stream is being "
        "captured. End the capture before the product, or capture only the part of the step that has none"
    )


def _make(stream: Any) -> Handle:
    if stream.is_capturing():
        raise captured()
    return Handle(runtime.cublas())


def _share(device: int, stream: Any) -> Handle:
    with _LOCK:
        made, key = _MADE[device], (device, stream.ptr)
        if key not in _SHARED:
            if len(made) < MAX_HANDLES:
                made.append(_make(stream))
                _SHARED[key] = made[-1]
            else:
                _SHARED[key] = made[len(_SHARED) % MAX_HANDLES]
        return _SHARED[key]


def _of_thread(device: int, stream: Any) -> Handle:
    handles = _OF_THREAD.handles
    if device not in handles:
        handles[device] = own = _make(stream)
        weakref.finalize(own, runtime.cublas().destroy, own.number).atexit = False
    return handles[device]
