"""What each thread has as current: a device, and on each device a stream.

With CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1 a thread begins on its own default stream instead of the legacy null one.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _errors
from ._errors import CUDARuntimeError
from ._queue import DEVICES, Queue

PER_THREAD = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("0", "")


class _Current(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams: list[Any] = [None] * len(DEVICES)  # None: the default stream
        self.stacks: list[list[Any]] = [[None] for _ in DEVICES]  # by `with stream:`, innermost last
        self.entered: list[int] = []  # the devices of these, in their order
        self.queues: list[Queue] = [device.queue(2) if PER_THREAD else device.null for device in DEVICES]


CURRENT = _Current()


def current_device() -> int:
    return CURRENT.device


def set_device(number: int) -> None:
    if not 0 <= number < len(DEVICES):
        raise CUDARuntimeError(_errors.INVALID_DEVICE)
    CURRENT.device = number


def current_queue(stream: Any = None) -> Queue:
    """The queue of `stream`, or of the thread's current stream on the current device."""
    if stream is None:
        return CURRENT.queues[CURRENT.device]
    return queue_of(stream.ptr)


def queue_of(handle: int) -> Queue:
    """The queue of a stream's handle; that of a named stream may be on another device."""
    if handle > 2:
        for device in DEVICES:
            if handle in device.queues:
                return device.queues[handle]
    return DEVICES[CURRENT.device].queue(handle)
