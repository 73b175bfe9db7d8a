"""What CuPy's launches take by value: CPointer, and CScalar, a number in the bytes of one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np


class CPointer:
    """The address of an argument, which a launch takes as it is."""

    def __init__(self, p: int = 0) -> None:
        self.ptr = p


class CScalar(CPointer):
    """A number as kernels read it: of `dtype`, or of the type that CuPy gives a Python number."""

    ndim = 0

    def __init__(self, value: Any, dtype: Any = None) -> None:
        self.value = value
        self.descr = _dtype_of(value) if dtype is None else np.dtype(dtype)
        self._memory = np.empty((), self.descr)
        self._memory[()] = value  # raises where the number does not fit, as CuPy's does
        super().__init__(self._memory.ctypes.data)

    @property
    def dtype(self) -> np.dtype:
        return self.descr


def _dtype_of(value: Any) -> np.dtype:
    """By exact type, as CuPy asks: a subclass of int is no number there."""
    if type(value) is int:
        return np.dtype(np.uint64 if value >= 1 << 63 else np.int64)
    if type(value) in (bool, float, complex):
        return np.dtype(type(value))
    if isinstance(value, np.generic):
        return value.dtype
    raise TypeError(f"Unsupported type {type(value)}")
