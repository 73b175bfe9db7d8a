"""Fault injection: the n-th allocation fails.

The failure comes from the allocator: on the CPU NumPy's, which raises MemoryError, on CUDA CuPy's. Every op call, copy
and gradient allocates there, so the code under test needs no fault points of its own. Reused memory (cpu/pool.py, the
optimizers' scratch) is not allocated and does not fail.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.backend.cuda import runtime


class Allocations:
    """Counts allocations of at least `least` bytes; number `at`, counted from 1, fails. With `at` 0 none fails."""

    def __init__(self, at: int, least: int) -> None:
        self.at, self.least, self.count = at, least, 0

    def fails(self, size: int) -> bool:
        """Counts an allocation of `size` bytes; returns whether it must fail."""
        self.count += size >= self.least
        return size >= self.least and self.count == self.at


@contextmanager
def out_of_memory(device: Device, at: int = 0, least: int = 1) -> Iterator[Allocations]:
    """Lets allocation number `at` of this thread on `device` fail inside the block.

    It raises MemoryError, on CUDA CuPy's OutOfMemoryError. Allocations below `least` bytes are not counted, since many
    NumPy calls allocate 0-d arrays.
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


# ---- NumPy: a thread-local memory handler of the C API (NEP 49) --------------------------------------------

_SET_HANDLER, _DEFAULT_HANDLER = 304, 306  # indices into the C API table
_NAME = b"mem_handler"
_Malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)  # PYFUNCTYPE keeps the GIL
_Calloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """PyDataMem_Handler. `free` is NumPy's own, since it also runs while an exception propagates."""

    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
        ("malloc", _Malloc), ("calloc", _Calloc), ("realloc", _Realloc), ("free", ctypes.c_void_p),
    )  # fmt: skip


class _Active(threading.local):
    allocations: Allocations


_ACTIVE = _Active()


@functools.cache
def _handler() -> tuple[Any, _Handler]:
    """The handler in a capsule. Made once: arrays hold the capsule and call its `free` after the block has ended."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    default = ctypes.cast(_table()[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object)).contents.value
    usual = _Handler.from_address(_pointer(default, _NAME))

    def fails(size: int) -> bool:
        return _ACTIVE.allocations.fails(size)

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
    _ACTIVE.allocations = allocations
    before = put(_handler()[0])
    try:
        yield
    finally:
        put(before)
