"""The names of the module cupy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import _device, _functions, _methods, _pinned, _pool, _raw, _ufunc
from ._array import as_array, ndarray

_methods.install()


def get_default_memory_pool() -> _pool.MemoryPool:
    return _pool.DEFAULT_POOL


def get_default_pinned_memory_pool() -> _pinned.PinnedMemoryPool:
    return _pinned.DEFAULT_POOL


def get_array_module(*args: Any) -> Any:
    return sys.modules["cupy"] if any(as_array(arg) is not None for arg in args) else np


NAMES: dict[str, Any] = {
    **_functions.own(), **_ufunc.UFUNCS, "ndarray": ndarray, "ufunc": _ufunc.ufunc, "newaxis": None,
    "RawKernel": _raw.RawKernel, "RawModule": _raw.RawModule, "get_array_module": get_array_module,
    "get_default_memory_pool": get_default_memory_pool, "is_available": _device.is_available,
    "get_default_pinned_memory_pool": get_default_pinned_memory_pool,
    **{name: getattr(np, name) for name in ("dtype", "e", "euler_gamma", "index_exp", "inf", "nan", "pi", "s_")},
}  # fmt: skip


def make(name: str) -> Any:
    """A NumPy type, or a NumPy function as device work; None for what NumPy does not have."""
    theirs = getattr(np, _functions.RENAMED.get(name, name), None)
    if isinstance(theirs, type):
        return theirs if issubclass(theirs, (np.generic, np.finfo, np.iinfo, np.ndindex)) else None
    return _functions.function(name) if callable(theirs) else None
