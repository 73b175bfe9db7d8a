"""The errors of CUDA and CuPy, and the one that only the stand-in can raise."""

from __future__ import annotations

from typing import Any

from ._table import API

_DRIVER_TEXTS = {
    1: "CUDA_ERROR_INVALID_VALUE: invalid argument", 400: "CUDA_ERROR_INVALID_HANDLE: invalid resource handle",
    500: "CUDA_ERROR_NOT_FOUND: named symbol not found",
    901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous error during capture",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: operation would make the legacy stream depend on a capturing blocking "
         "stream",
}  # fmt: skip


class CUDARuntimeError(RuntimeError):
    """An error status of the CUDA runtime, with CUDA's own name and text."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(API["statuses"][str(status)])

    def __reduce__(self) -> tuple:
        return type(self), (self.status,)


class CUDADriverError(RuntimeError):
    """An error status of the CUDA driver."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_DRIVER_TEXTS[status])


# What CuPy asks of the CUDA runtime; all other work is a kernel, which the driver launches.
_OF_THE_RUNTIME = frozenset((
    "event", "host to device copy", "device to host copy", "memcpy", "memcpy with the host", "memset", "host function",
))  # fmt: skip


def refused(status: int, what: str) -> RuntimeError:
    """The error for work on a stream that takes none: of the library that CuPy asks for it."""
    return CUDARuntimeError(status) if what in _OF_THE_RUNTIME else CUDADriverError(status)


class CompileException(Exception):
    """A source that does not compile; the text is the compiler's."""

    def __init__(self, msg: str, source: str, name: str, options: Any, backend: str = "nvrtc") -> None:
        super().__init__(msg)
        self._msg, self.source, self.name, self.options, self.backend = msg, source, name, options, backend

    def get_message(self) -> str:
        return self._msg


class OutOfMemoryError(MemoryError):
    """No device memory left, or a pool's limit reached; the text is CuPy's."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        self._given = (size, total, limit)
        so_far = f" (allocated so far: {total:,} bytes"
        limited = f", limit set to: {limit:,} bytes)." if limit else ")."
        super().__init__(f"Out of memory allocating {size:,} bytes" + so_far + limited)

    def __reduce__(self) -> tuple:
        return type(self), self._given


class PerformanceWarning(RuntimeWarning):
    pass


class HazardError(RuntimeError):
    """A bug in the order or lifetime of device work, on which real hardware may go wrong silently."""


class RaceError(HazardError):
    """Two accesses to the same bytes that no stream order, event or wait puts one behind the other."""


INVALID_VALUE, MEMORY_ALLOCATION, INVALID_DEVICE, INVALID_HANDLE, NOT_READY = 1, 2, 101, 400, 600
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNMATCHED, CAPTURE_UNJOINED = 900, 901, 903, 904
CAPTURE_ISOLATION, CAPTURE_IMPLICIT, CAPTURED_EVENT = 905, 906, 907
