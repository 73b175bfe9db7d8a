"""NumPy arrays in page-locked memory, and copies of them to a device for which the CPU does not wait.

CuPy's pool gives page-locked memory away again as soon as the last array in it dies, also while a copy still reads it.
So an array that is being copied is held here until its copy is complete.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from .. import counters
from ..cuda import runtime
from .copy_engine import record

_in_flight: deque[tuple[Any, np.ndarray]] = deque()  # the event after a copy, and the array that it reads


def pinned(array: np.ndarray) -> np.ndarray:
    """A copy of `array` in page-locked memory, or `array` itself if it lies there or is empty."""
    if not array.size or is_pinned(array):
        return array
    _release()
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    copy = runtime.cupyx().empty_pinned(array.shape, array.dtype, order="F" if fortran else "C")
    copy[...] = array
    return copy


def is_pinned(array: np.ndarray) -> bool:
    """Whether `array` lies in page-locked memory. Does not import CuPy: without it there is no such memory."""
    module = runtime.loaded()
    return module is not None and module.cuda.is_available() and _is_locked(module, array)


def _is_locked(module: Any, array: np.ndarray) -> bool:
    return bool(module.cuda.pinned_memory.is_memory_pinned(array.__array_interface__["data"][0]))


def can_send(array: np.ndarray) -> bool:
    """Whether `send` takes `array`: one in page-locked memory, without gaps, and not 0-d (cuda/exact.py)."""
    return array.ndim > 0 and array.size > 0 and array.flags.forc and _is_locked(runtime.cupy(), array)


def send(array: np.ndarray, index: int, non_blocking: bool) -> Any:
    """A copy of `array`, for which `can_send` holds, on device `index`; with `non_blocking` it is only queued."""
    module = runtime.require_device(index)
    with module.cuda.Device(index):
        stream = module.cuda.get_current_stream()
        result = module.empty(array.shape, array.dtype, order="C" if array.flags.c_contiguous else "F")
        result.set(array, stream)
        if counters.ACTIVE:
            counters.copied("host to device", array.nbytes)
        if non_blocking:
            _in_flight.append((record(stream), array))
        else:
            stream.synchronize()
    return result


def _release() -> None:
    """Lets go of the arrays whose copies are complete."""
    for _ in range(len(_in_flight)):
        event, array = _in_flight.popleft()
        if not event.done:
            _in_flight.append((event, array))
