"""cuBLAS handles: one that CuPy makes for each thread and device, and those that somebody creates.

A handle may be used by any thread, but by one at a time: a call sets its stream, then does its work, and CuPy gives up
the interpreter lock in between.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ._emulation import SETTINGS
from ._errors import HazardError
from ._queue import Queue
from ._state import current_device, current_queue

_PER_THREAD = 2  # the number of every thread's own default stream
_numbers = itertools.count(0xB1A5_0000, 0x10)


class Handle:
    """What cublasCreate makes on the current device."""

    pointer_mode = math_mode = 0

    def __init__(self, device: int) -> None:
        self.device = device
        self.stream = 0  # as the library's own functions set it; CuPy's set the current stream at each call
        self.workspace: tuple[int, int] | None = None  # address and bytes
        self.user: int | None = None  # the thread that is in a call
        self.owner: int | None = None  # the thread on whose own default stream it has worked


HANDLES: dict[int, Handle] = {}


def create() -> int:
    queue = current_queue()
    if queue.capture is not None:
        queue.capture.invalidate()
        raise HazardError(f"a cuBLAS handle is made while {queue} is being captured: that allocates and waits for the "
                          "device; make it before begin_capture()")
    number = next(_numbers)
    HANDLES[number] = Handle(current_device())
    return number


def destroy(handle: int) -> None:
    if of(handle).user is not None:
        raise HazardError(f"the cuBLAS handle {handle:#x} is destroyed while thread {of(handle).user} uses it")
    del HANDLES[handle]


def of(handle: int) -> Handle:
    found = HANDLES.get(handle)
    if found is None:
        raise HazardError(f"{handle:#x} is no cuBLAS handle, or one that was destroyed")
    return found


@contextmanager
def used(handle: int, queue: Queue) -> Iterator[Handle]:
    """The handle during a call that works on `queue`; HazardError where that may go wrong."""
    found, thread = of(handle), threading.get_ident()
    if found.device != current_device():
        raise HazardError(f"the cuBLAS handle {handle:#x} was made on device {found.device}, but device "
                          f"{current_device()} is current")
    if found.user is not None:
        raise HazardError(f"the cuBLAS handle {handle:#x} is used by two threads at the same time: hold a lock during "
                          "the call, or give each thread a handle")
    if queue.handle == _PER_THREAD:
        if found.owner not in (None, thread):
            raise HazardError(f"the cuBLAS handle {handle:#x} works on the default streams of two threads, which have "
                              "one number: it takes them for one stream, and their work for ordered")
        found.owner = thread
    found.user = thread
    try:
        let_others_run()
        yield found
    finally:
        found.user = None


def let_others_run() -> None:
    """Gives up the interpreter lock, as CuPy does around a call of cuBLAS."""
    if SETTINGS.computes:
        time.sleep(0)


# ---- CuPy's own ----------------------------------------------------------------------------------------


class _Own:
    """A handle that goes with its thread."""

    def __init__(self) -> None:
        self.number = create()

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and hasattr(self, "number"):
            HANDLES.pop(self.number, None)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.handles: dict[int, _Own] = {}  # by device


_of_thread = _OfThread()


def own() -> int:
    """CuPy's handle for this thread and the current device."""
    handles, device = _of_thread.handles, current_device()
    if device not in handles:
        handles[device] = _Own()
    return handles[device].number
