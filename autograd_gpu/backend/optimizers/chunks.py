"""Optimizer formulas on arrays in place, in chunks that stay in the cache.

On NumPy a large parameter is updated chunk by chunk: a chunk passes through the whole formula while it is
in the cache, and every intermediate goes into a scratch that the thread keeps, because a fresh array above
128 KiB is mapped, page-faulted and unmapped each time, which costs more than the arithmetic on it.
`y = a x + b y` is one pass of BLAS instead of three ufuncs, see Note [axpby].
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
# (xp, axpby, arrays, work, numbers): arrays are (parameter, gradient, *state), of which the gradient is only read; work
# are three or more arrays of rubbish like them.
Kernel = Callable[[Any, Axpby, tuple, tuple, Any], None]

CHUNK = 1 << 16  # elements; fewer cost more in calls than the L2 cache (1 MiB) gives back (Adam: +7 %)
_REMEMBERED = 256  # shapes kept per thread

# Note [axpby]
# Up to 8192 elements SciPy's axpy is fastest (a call takes 0.1 us), after a multiply where b is not 1. Beyond, its
# OpenBLAS, which is not NumPy's, would start threads, and when both libraries run threads, each waits spinning for
# cores that the other one holds (a step of 50 us was measured to take 5 ms). NumPy's own OpenBLAS has axpby, which
# is one pass and never starts threads; but a call through ctypes takes 2 us. 65536 elements: 4.3 us by axpby, 8.9 us
# by multiply and axpy in blocks.
_BLOCK = 8192
_HALVES = (bfloat16, float16)


class _Scratch(threading.local):
    """The thread's memory for intermediates."""

    def __init__(self) -> None:
        self.memory: dict[str, np.ndarray] = {}
        self.views: dict[tuple[tuple[int, ...], str], tuple[np.ndarray, ...]] = {}

    def like(self, array: np.ndarray) -> tuple[np.ndarray, ...]:
        """Five work arrays like `array`, which has at most CHUNK elements; they hold rubbish."""
        key = (array.shape, array.dtype.char)
        found = self.views.get(key)
        if found is None:
            if array.dtype.char not in self.memory:
                self.memory[array.dtype.char] = np.empty((5, CHUNK), array.dtype)
            if len(self.views) >= _REMEMBERED:
                self.views.clear()
            found = self.views[key] = tuple(
                [row[: array.size].reshape(array.shape) for row in self.memory[array.dtype.char]]
            )
        return found


SCRATCH = _Scratch()


def sweep(kernel: Kernel, arrays: tuple, numbers: Any) -> None:
    """Runs `kernel` over `arrays`, all of one shape, dtype and device; it writes into them."""
    head = arrays[0]
    dtype = head.dtype
    for array in arrays:
        if array.dtype is not dtype or type(array) is not type(head):
            _check_alike(head, array)
    if dtype in _HALVES:
        _in_float32(kernel, arrays, numbers)
    elif type(head) is not np.ndarray:
        xp = runtime.cupy()
        work = (xp.empty_like(head), xp.empty_like(head), xp.empty_like(head))
        kernel(xp, functools.partial(_by_ufuncs, xp), arrays, work, numbers)
    else:
        arrays, axpby = _flat(arrays)
        if head.size <= CHUNK:
            kernel(np, axpby, arrays, SCRATCH.like(arrays[0]), numbers)
            return
        for chunk in _chunks(arrays):
            kernel(np, axpby, chunk, SCRATCH.like(chunk[0]), numbers)


def _check_alike(param: Array, other: Array) -> None:
    """A state of another dtype would be updated in a copy by BLAS, and the update be lost."""
    if type(param) is not type(other) or param.dtype != other.dtype:
        raise RuntimeError(
            f"the optimizer holds {type(other).__module__} arrays of {other.dtype} for a parameter that is "
            f"{type(param).__module__} {param.dtype}: it was moved or converted after the first step; "
            "make a new optimizer, or load_state_dict(state_dict()) to convert the state"
        )


def _in_float32(kernel: Kernel, arrays: tuple, numbers: Any) -> None:
    """Half types: computed in float32 and rounded once, since a half loses its share 1 - beta2 of g^2."""
    wide = tuple(array.astype(float32) for array in arrays)
    sweep(kernel, wide, numbers)
    written = [i for i in range(len(arrays)) if i != 1]  # the gradient is only read
    rounded = [wide[i].astype(arrays[0].dtype) for i in written]  # all, before any of them is written
    for i, result in zip(written, rounded, strict=True):
        arrays[i][...] = result


def _flat(arrays: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], Axpby]:
    """`arrays` as vectors where their layouts agree, else as they are; and the axpby that can take them."""
    if not arrays[0].flags.c_contiguous:
        arrays = tuple([array.T for array in arrays])
    for array in arrays:
        if not array.flags.carray:  # BLAS would work on a copy, or write to read-only memory
            return arrays, functools.partial(_by_ufuncs, np)
    return tuple([array.reshape(-1) for array in arrays]), by_blas


def _chunks(arrays: tuple[np.ndarray, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """Views of at most CHUNK elements, those of one tuple alike in shape, that cover `arrays` once."""
    head = arrays[0]
    row = head.size // len(head)
    if row > CHUNK:
        for i in range(len(head)):
            yield from _chunks(tuple([array[i] for array in arrays]))
        return
    rows = CHUNK // row
    for start in range(0, len(head), rows):
        yield tuple([array[start : start + rows] for array in arrays])


def _by_ufuncs(xp: Any, y: Array, x: Array, a: float, b: float, work: Array) -> None:
    xp.multiply(x, a, work)
    if b != 1.0:
        xp.multiply(y, b, y)
    xp.add(y, work, y)


def by_blas(y: np.ndarray, x: np.ndarray, a: float, b: float, work: np.ndarray | None = None) -> None:
    """y = a x + b y for contiguous vectors of float32 or float64, without `work`. Note [axpby]."""
    size, char = y.size, y.dtype.char
    if size > _BLOCK and (axpby := blas_axpby().get(char)):
        axpby(y, x, a, b)
        return
    if b != 1.0:
        np.multiply(y, b, y)
    axpy = _axpy()[char]
    if size <= _BLOCK:
        if size:
            axpy(x, y, size, a)
        return
    for start in range(0, size, _BLOCK):
        axpy(x, y, min(_BLOCK, size - start), a, start, 1, start, 1)


@functools.cache
def _axpy() -> dict[str, Callable[..., Any]]:
    """axpy by dtype; imported at the first step, since SciPy would double the package's import time."""
    from scipy.linalg import blas

    return {"f": blas.saxpy, "d": blas.daxpy}
