"""Handles of cuBLAS: one for each stream, which the threads that work there share.

CuPy makes one for each thread and device, and destroys it with the thread, which waits for the device; its modes are
the user's to set. To make a handle is slow, and each has a workspace on the device. So these are ours:

    1. A handle belongs to a stream by its number, and lasts as long as the process. CUDA releases a destroyed stream
       when its work is done: the stream that gets its number next finds the workspace free.
    2. It belongs to one stream, since only so cuBLAS repeats its bits while other streams are at work. Beyond a few
       streams they share, as CuPy's streams of one thread do.
    3. One thread at a time uses it: CuPy sets its stream, and then calls. The lock is reentrant, since a signal's
       handler may multiply, too.
    4. Every thread's own default stream has the same number. cuBLAS would take them for one stream, so there a thread
       has a handle of its own, which is destroyed with it.
    5. No handle is made while its stream is captured in a graph: making one allocates memory.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from typing import Any

from . import runtime

WIDE_PARTIAL_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION of cublasMath_t
_PER_THREAD = 2  # the number of every thread's own default stream
_MOST = 8  # handles of a device: for the workspace of one, cuBLAS' manual has 32 MiB on an H100


class Handle:
    """A handle of the current device, CuPy's functions that take its number, and a lock to hold meanwhile."""

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
    """The handle for work on the current stream of `device`, which is current itself."""
    stream = runtime.current.stream(device)
    try:
        return _SHARED[device, stream.ptr]
    except KeyError:
        return _of_thread(device, stream) if stream.ptr == _PER_THREAD else _share(device, stream)


def captured() -> RuntimeError:
    """The error of a product whose stream is being captured."""
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
            if len(made) < _MOST:
                made.append(_make(stream))
                _SHARED[key] = made[-1]
            else:
                _SHARED[key] = made[len(_SHARED) % _MOST]
        return _SHARED[key]


def _of_thread(device: int, stream: Any) -> Handle:
    handles = _OF_THREAD.handles
    if device not in handles:
        handles[device] = own = _make(stream)
        weakref.finalize(own, runtime.cublas().destroy, own.number).atexit = False
    return handles[device]
