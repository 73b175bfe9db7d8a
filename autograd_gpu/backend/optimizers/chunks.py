"""Optimizer formulas applied to arrays in place, in chunks that fit in the cache.

A large NumPy parameter is updated chunk by chunk: the whole formula runs on a chunk while it is in the cache.
Intermediates go to thread-local scratch memory, since a new array above 128 KiB is mapped, page-faulted and unmapped
each time, which takes longer than its arithmetic. `y = a x + b y` is one pass of BLAS instead of three ufuncs, see
Note [axpby].
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays.dtypes import bfloat16, float16, float32
from ..cpu.blas import axpby as blas_axpby
from ..cuda import runtime

Array = Any  # numpy.ndarray or cupy.ndarray
Axpby = Callable[[Array, Array, float, float, Array], None]  # (y, x, a, b, work): y = a x + b y; writes x a to work
# (xp, axpby, arrays, work, numbers): arrays are (parameter, gradient, *state), where the gradient is only read; work
# are at least three uninitialized arrays of their shape; numbers are the hyperparameters.
Formula = Callable[[Any, Axpby, tuple, tuple, Any], None]

CHUNK = 1 << 16  # elements; with fewer, call overhead exceeds the gain from the L2 cache (1 MiB; Adam: +7 %)
_MAX_SHAPES = 256  # shapes kept per thread

# Note [axpby]
# The axpby of NumPy's OpenBLAS is one pass, without threads, but a call through ctypes takes 2 us: up to 8192 elements
# ufuncs are faster. SciPy's axpy takes 0.1 us, and importing it at the first step up to a second.
_BLOCK = 8192
_HALVES = (bfloat16, float16)


class _Scratch(threading.local):
    """Thread-local memory for intermediates."""

    def __init__(self) -> None:
        self.memory: dict[str, np.ndarray] = {}
        self.views: dict[tuple[tuple[int, ...], str], tuple[np.ndarray, ...]] = {}

    def like(self, array: np.ndarray) -> tuple[np.ndarray, ...]:
        """Five uninitialized work arrays like `array`, which has at most CHUNK elements."""
        key = (array.shape, array.dtype.char)
        arrays = self.views.get(key)
        if arrays is None:
            if array.dtype.char not in self.memory:
                self.memory[array.dtype.char] = np.empty((5, CHUNK), array.dtype)
            if len(self.views) >= _MAX_SHAPES:
                self.views.clear()
            arrays = self.views[key] = tuple(
                [row[: array.size].reshape(array.shape) for row in self.memory[array.dtype.char]]
            )
        return arrays


SCRATCH = _Scratch()


def sweep(formula: Formula, arrays: tuple, numbers: Any) -> None:
    """Runs `formula` on `arrays` in place; they have the same shape, dtype and device, else RuntimeError."""
    head = arrays[0]
    dtype = head.dtype
    for array in arrays:
        if array.dtype is not dtype or type(array) is not type(head):
            _check_alike(head, array)
    if dtype in _HALVES:
        _in_float32(formula, arrays, numbers)
    elif type(head) is not np.ndarray:
        xp = runtime.cupy()
        work = (xp.empty_like(head), xp.empty_like(head), xp.empty_like(head))
        formula(xp, functools.partial(_by_ufuncs, xp), arrays, work, numbers)
    else:
        arrays, axpby = _flat(arrays)
        if head.size <= CHUNK:
            formula(np, axpby, arrays, SCRATCH.like(arrays[0]), numbers)
            return
        for chunk in _chunks(arrays):
            formula(np, axpby, chunk, SCRATCH.like(chunk[0]), numbers)


def _check_alike(param: Array, other: Array) -> None:
    """RuntimeError if a state has another dtype or module: BLAS would update a copy, and the update would be lost."""
    if type(param) is not type(other) or param.dtype != other.dtype:
        raise RuntimeError(
            f"the optimizer holds {type(other).__module__} arrays of {other.dtype} for a parameter that is "
            f"{type(param).__module__} {param.dtype}: it was moved or converted after the first step; "
            "make a new optimizer, or load_state_dict(state_dict()) to convert the state"
        )


def _in_float32(formula: Formula, arrays: tuple, numbers: Any) -> None:
    """Runs `formula` on half types in float32 and rounds once: in half precision (1 - beta2) g^2 would be lost."""
    wide = tuple(array.astype(float32) for array in arrays)
    sweep(formula, wide, numbers)
    written = [i for i in range(len(arrays)) if i != 1]  # the gradient is only read
    rounded = [wide[i].astype(arrays[0].dtype) for i in written]  # all, before any of them is written
    for i, result in zip(written, rounded, strict=True):
        arrays[i][...] = result


def _flat(arrays: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], Axpby]:
    """`arrays` as vectors if they are contiguous in the same order, else unchanged; and an axpby for them."""
    if not arrays[0].flags.c_contiguous:
        arrays = tuple([array.T for array in arrays])
    for array in arrays:
        if not array.flags.carray:  # BLAS would update a copy, or write to read-only memory
            return arrays, functools.partial(_by_ufuncs, np)
    return tuple([array.reshape(-1) for array in arrays]), by_blas


def _chunks(arrays: tuple[np.ndarray, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """Tuples of views of the same shape, of at most CHUNK elements, that cover `arrays`."""
    head = arrays[0]
    row = head.size // len(head)
    if row > CHUNK:
        for i in range(len(head)):
            yield from _chunks(tuple([array[i] for array in arrays]))
        return
    rows = CHUNK // row
    for start in range(0, len(head), rows):
        yield tuple([array[start : start + rows] for array in arrays])


def _by_ufuncs(xp: Any, y: Array, x: Array, a: float, b: float, work: Array | None) -> None:
    product = xp.multiply(x, a, work)  # before y is written, since without `work` the memory may run out
    if b != 1.0:
        xp.multiply(y, b, y)
    xp.add(y, product, y)


def by_blas(y: np.ndarray, x: np.ndarray, a: float, b: float, work: np.ndarray | None = None) -> None:
    """y = a x + b y for contiguous float32 or float64 vectors; may write to `work`. See Note [axpby]."""
    if y.size > _BLOCK and (axpby := blas_axpby().get(y.dtype.char)):
        axpby(y, x, a, b)
        return
    _by_ufuncs(np, y, x, a, b, work)
