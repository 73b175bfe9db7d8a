"""CUDA devices."""

from __future__ import annotations

from .backend.cuda import cupy, is_available


def device_count() -> int:
    """How many CUDA devices there are; 0 without CuPy or a driver.

    >>> ag.cuda.device_count() >= 0
    True
    """
    return int(cupy().cuda.runtime.getDeviceCount()) if is_available() else 0


def synchronize() -> None:
    """Waits for all work on the current device; ImportError without CuPy."""
    cupy().cuda.Device().synchronize()


__all__ = ["device_count", "is_available", "synchronize"]
