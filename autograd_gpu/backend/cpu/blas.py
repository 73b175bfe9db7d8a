"""The BLAS libraries of NumPy and SciPy: calls on the calling thread alone.

The threads of OpenBLAS wait for each other, and for the next call, by spinning. With another process on one of two
cores, a product takes several times as long on two of them as on one, and afterwards they hold the core that our own
threads (rows.py) would use. So every call of this package that could wake them runs with a limit of one thread, which
is restored after the call; what is large enough for several threads is cut into blocks for ours. What users call
themselves, such as `np.dot`, has the threads that they gave it, but for calls in other threads during one of ours.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# Up to these sizes OpenBLAS uses no threads (interface/gemm.c, gemv.c, kernel/x86_64/ddot.c): multiply-adds of a
# product; elements of the matrix of a matrix-vector product, or of the vectors of a dot product.
SMALL_PRODUCT, SMALL_VECTOR = 1 << 18, 1 << 13

_AFFIXES = [(prefix, suffix) for prefix in ("scipy_", "") for suffix in ("64_", "_64", "")]  # of OpenBLAS' symbols


class Limit:
    """The thread limit of a BLAS library, changed during calls."""

    def __init__(self, controller: Any) -> None:
        """`controller` is threadpoolctl's; None for a library that it does not know, whose limit stays."""
        self.controller = controller
        self.lock = threading.RLock()  # a signal handler may call a product, too
        self.depth = 0  # the calls that run, in any thread
        self.before = 1  # the limit before the first of them
        self.changes = False  # whether the first of them has set another one
        if controller is None:
            self.get: Callable[[], int] = int
            self.put: Callable[[int], object] = bool
        elif (affixes := _affixes(controller.dynlib)) is None:
            self.get, self.put = controller.get_num_threads, controller.set_num_threads
        else:  # by OpenBLAS' own functions: threadpoolctl ignores a thread while another one has set the limit
            self.get, self.put = [
                getattr(controller.dynlib, f"openblas_{verb}_num_threads".join(affixes)) for verb in ("get", "set")
            ]

    def on(self, threads: int, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args) with a limit of `threads`; beside a call that has set a limit already, with that one."""
        entered = False  # KeyboardInterrupt may be raised after any call, also after get and put
        try:
            with self.lock:
                if not self.depth:
                    self.before = self.get()
                    self.changes = threads != self.before
                self.depth += 1
                entered = True
                if self.depth == 1 and self.changes:
                    self.put(threads)
            return function(*args)
        finally:
            if entered:
                with self.lock:
                    self.depth -= 1
                    if not self.depth and self.changes:
                        self.put(self.before)

    def threads(self) -> int:
        """The limit that the process has set, also while calls run with another; 0 if the library has none."""
        with self.lock:
            return self.before if self.depth else self.get()


_LIMITS: dict[str, Limit] = {}  # by the library's file; "" for an unknown library


@functools.cache
def limit_of(package: str) -> Limit:
    """The limit of the BLAS that "numpy" or "scipy" calls, which has to be imported; one object if they share it."""
    from threadpoolctl import ThreadpoolController  # takes 25 ms, which importing this package does not

    libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    own = [lib for lib in libraries if f"{package}.libs" in lib.filepath or f"{package}/.dylibs" in lib.filepath]
    shared = [lib for lib in libraries if ".libs" not in lib.filepath and ".dylibs" not in lib.filepath]
    controller = (own or shared or [None])[0]  # a wheel brings its own; else both packages call the system's
    return _LIMITS.setdefault(controller.filepath if controller else "", Limit(controller))


def on_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args) with NumPy's BLAS limited to the calling thread."""
    return limit_of("numpy").on(1, function, *args)


def readable(x: np.ndarray) -> np.ndarray:
    """`x` if BLAS can read its matrices, whose rows or columns must be dense, else a copy.

    np.dot makes this copy; np.matmul of NumPy 2.1 has a loop for such operands that takes twenty times as long.
    """
    (height, width), size, (row, column) = x.shape[-2:], x.itemsize, x.strides[-2:]
    if (column == size or width == 1) and (row >= width * size or height == 1):
        return x
    if (row == size or height == 1) and (column >= height * size or width == 1):
        return x
    repeated = tuple([slice(None if stride else 1) for stride in x.strides[:-2]])
    return np.broadcast_to(np.ascontiguousarray(x[repeated]), x.shape)


class Products(NamedTuple):
    """The addresses of functions of CBLAS for one dtype; `wide`: whether their integers have 64 bits."""

    gemm: int
    gemv: int
    wide: bool


@functools.cache
def products_of(dtype: np.dtype) -> Products | None:
    """Those that np.dot calls for float32 or float64; None if NumPy uses another BLAS than OpenBLAS."""
    controller = limit_of("numpy").controller
    affixes = None if controller is None else _affixes(controller.dynlib)
    letter = {"f": "s", "d": "d"}.get(dtype.char)
    if affixes is None or letter is None:
        return None
    functions = [getattr(controller.dynlib, f"cblas_{letter}{name}".join(affixes)) for name in ("gemm", "gemv")]
    gemm, gemv = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return Products(gemm, gemv, "64" in affixes[1])


def kernels() -> str | None:
    """The processor type that NumPy's OpenBLAS has selected, such as "SkylakeX"; None if NumPy uses another BLAS."""
    return getattr(limit_of("numpy").controller, "architecture", None)


def version() -> str | None:
    """The version of NumPy's BLAS, such as "0.3.30"; None if it does not tell."""
    return getattr(limit_of("numpy").controller, "version", None)


def _affixes(library: ctypes.CDLL) -> tuple[str, str] | None:
    """What stands before and after the names of this OpenBLAS; None for another BLAS."""
    return next((pair for pair in _AFFIXES if hasattr(library, "openblas_get_num_threads".join(pair))), None)


def _forget_threads() -> None:
    """In the child of a fork: the calls that ran in other threads of the parent do not run here."""
    for limit in _LIMITS.values():
        limit.lock = threading.RLock()
        if limit.depth:
            limit.depth = 0
            limit.put(limit.before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
