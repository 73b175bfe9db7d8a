"""Arithmetic of this thread that flushes subnormal numbers to zero, as CUDA's does with CuPy's option -ftz=true."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_FLUSH = 0x8000 | 0x40  # of MXCSR: results (FTZ) and operands (DAZ)


class _Environment(ctypes.Structure):
    """fenv_t of glibc on x86-64."""

    _fields_ = (("x87", ctypes.c_char * 28), ("mxcsr", ctypes.c_uint32))


@contextmanager
def flushing() -> Iterator[None]:
    """Subnormal numbers are zeros inside, those of float64, too, which CUDA keeps."""
    libm, before, inside = ctypes.CDLL("libm.so.6"), _Environment(), _Environment()
    libm.fegetenv(ctypes.byref(before))
    libm.fegetenv(ctypes.byref(inside))
    inside.mxcsr |= _FLUSH
    libm.fesetenv(ctypes.byref(inside))
    try:
        yield
    finally:
        libm.fesetenv(ctypes.byref(before))
