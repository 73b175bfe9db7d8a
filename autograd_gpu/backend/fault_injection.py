"""Fault points for tests: memory that runs out at the n-th allocation. Nothing in the package calls this.

The failure comes from where a real one would: on the CPU from NumPy's allocator, which raises its own MemoryError, on
CUDA from CuPy's. Every op call, copy and gradient that needs memory passes there, so the code under test is the code
that users run, and has no test in it. Memory that is reused (pool.py, the optimizers' scratch) cannot run out.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arrays.device import Device
from .cuda import runtime


class Allocations:
    """Counts allocations of `least` bytes or more; the one with the number `at`, from 1 on, fails. 0: none does."""

    def __init__(self, at: int, least: int) -> None:
        self.at, self.least, self.count = at, least, 0

    def fails(self, size: int) -> bool:
        """Counts one more, and says whether it is the one."""
        self.count += size >= self.least
        return size >= self.least and self.count == self.at


@contextmanager
def out_of_memory(device: Device, at: int = 0, least: int = 1) -> Iterator[Allocations]:
    """Within the block allocation number `at` of this thread on `device` raises MemoryError, on CUDA CuPy's own.

    Allocations below `least` bytes do not count: NumPy makes a 0-d array of a number within many a call.
    """
    allocations = Allocations(at, least)
    with _in_numpy(allocations) if device.type == "cpu" else _in_cupy(allocations):
        yield allocations


def _in_cupy(allocations: Allocations) -> Any:
    module = runtime.cupy()
    malloc = module.cuda.get_allocator()

    def failing(size: int) -> Any:
        if allocations.fails(size):
            raise module.cuda.memory.OutOfMemoryError(size, 0, 0)
        return malloc(size)

    return module.cuda.using_allocator(failing)


# ---- NumPy: a handler of its C API, for the thread that sets it (NEP 49) -----------------------------------

_SET_HANDLER, _DEFAULT_HANDLER = 304, 306  # places in the table of the C API
_NAME = b"mem_handler"
_Malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)  # PYFUNCTYPE keeps the GIL
_Calloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """PyDataMem_Handler. `free` stays NumPy's own: it also runs while an exception is on its way."""

    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
        ("malloc", _Malloc), ("calloc", _Calloc), ("realloc", _Realloc), ("free", ctypes.c_void_p),
    )  # fmt: skip


class _Watched(threading.local):
    allocations: Allocations


_WATCHED = _Watched()


@functools.cache
def _handler() -> tuple[Any, _Handler]:
    """The handler in a capsule; arrays keep the capsule and call `free` long after the block, so it is made once."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    default = ctypes.cast(_table()[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object)).contents.value
    usual = _Handler.from_address(_pointer(default, _NAME))

    def fails(size: int) -> bool:
        return _WATCHED.allocations.fails(size)

    own = _Handler(
        b"autograd_gpu faults", usual.version, usual.context,
        _Malloc(lambda context, size: None if fails(size) else usual.malloc(context, size)),
        _Calloc(lambda context, n, size: None if fails(n * size) else usual.calloc(context, n, size)),
        _Realloc(lambda context, old, size: None if fails(size) else usual.realloc(context, old, size)),
        usual.free,
    )
    return capsule(ctypes.addressof(own), _NAME, None), own


def _pointer(capsule: Any, name: bytes | None) -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return pointer(capsule, name)


def _table() -> Any:
    """The table of NumPy's C API."""
    module: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    return ctypes.cast(_pointer(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))


@contextmanager
def _in_numpy(allocations: Allocations) -> Iterator[None]:
    put = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(_table()[_SET_HANDLER])
    _WATCHED.allocations = allocations
    before = put(_handler()[0])
    try:
        yield
    finally:
        put(before)
