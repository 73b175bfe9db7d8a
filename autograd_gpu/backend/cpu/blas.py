"""Direct calls of the OpenBLAS in NumPy's wheel: its thread limit, and y = a x + b y in one pass.

OpenBLAS uses threads for products above 0.3 million multiply-adds. Below two million they gain little on an idle
machine, leave half of the result in another core's cache, and spin afterwards: an SGD step of 784-256-256-10 at batch
8 takes 0.29 ms with one thread, 0.28 to 0.42 ms with two, and 60 times that when another process uses the second core.
So these products run with a limit of one thread, which is restored after each product. So do the blocks of large ones
(large_products.py).
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

SMALLEST, LARGEST = 1 << 18, 1 << 21  # multiply-adds between which OpenBLAS uses threads and should not

_NAMES = ("scipy_{}64_", "scipy_{}", "{}64_", "{}")  # symbol patterns of OpenBLAS builds; 64_ takes 64-bit sizes

Axpby = Callable[[np.ndarray, np.ndarray, float, float], None]  # (y, x, a, b): y = a x + b y


class _Limit:
    """The number of running calls under the limit (depth), and the limit before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.before = 1


_LIMIT = _Limit()


@functools.cache
def _library() -> tuple[ctypes.CDLL, str] | None:
    """NumPy's OpenBLAS and the pattern of its symbol names; None if NumPy uses another BLAS."""
    root = pathlib.Path(np.__file__).parent
    for path in [*root.parent.glob("numpy.libs/*openblas*"), *root.glob(".dylibs/*openblas*")]:
        library = ctypes.CDLL(str(path))  # the instance that NumPy has loaded
        for name in _NAMES:
            if hasattr(library, name.format("openblas_set_num_threads")):
                return library, name
    return None


@functools.cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """The functions that get and set OpenBLAS' number of threads; None if NumPy uses another BLAS."""
    loaded = _library()
    if loaded is None:
        return None
    library, name = loaded
    return getattr(library, name.format("openblas_get_num_threads")), getattr(
        library, name.format("openblas_set_num_threads")
    )


def threads() -> int:
    """The number of threads that NumPy's OpenBLAS may use; 0 if NumPy uses another BLAS."""
    controls = _controls()
    return 0 if controls is None else controls[0]()


def limit() -> int:
    """threads() as the process has set it, also while products run on one thread; 0 if NumPy uses another BLAS."""
    with _LIMIT.lock:
        return _LIMIT.before if _LIMIT.depth else threads()


def set_limit(count: int) -> None:
    """Sets threads() to `count`, at the end of the products that run on one thread; nothing with another BLAS."""
    controls = _controls()
    if controls is None:
        return
    with _LIMIT.lock:
        if _LIMIT.depth:
            _LIMIT.before = count
        else:
            controls[1](count)


def kernels() -> str | None:
    """The processor type that NumPy's OpenBLAS has selected, such as "SkylakeX"; None if NumPy uses another BLAS."""
    loaded = _library()
    if loaded is None:
        return None
    library, name = loaded
    core = getattr(library, name.format("openblas_get_corename"))
    core.restype = ctypes.c_char_p
    return core().decode()


@functools.cache
def axpby() -> dict[str, Axpby]:
    """{dtype.char: f}, where f(y, x, a, b) sets y = a x + b y on contiguous vectors; empty if NumPy uses another BLAS.

    One pass over memory, where NumPy takes two or three; always on the calling thread.
    """
    loaded = _library()
    if loaded is None:
        return {}
    library, name = loaded
    size = ctypes.c_int64 if name.endswith("64_") else ctypes.c_int
    return {
        "f": _bind(getattr(library, name.format("cblas_saxpby")), size, ctypes.c_float),
        "d": _bind(getattr(library, name.format("cblas_daxpby")), size, ctypes.c_double),
    }


def _bind(function: Any, size: type, number: type) -> Axpby:
    function.argtypes = [size, number, ctypes.c_void_p, size, number, ctypes.c_void_p, size]
    function.restype = None
    address: Any = (ctypes.c_char * 1).from_buffer  # 0.2 us; array.ctypes.data takes 0.8 us

    def axpby(y: np.ndarray, x: np.ndarray, a: float, b: float) -> None:
        function(y.size, a, address(x), 1, b, address(y), 1)

    return axpby


def _forget_threads() -> None:
    """In the child of a fork: the products that ran in other threads of the parent do not run here."""
    _LIMIT.lock = threading.Lock()
    if _LIMIT.depth:
        _LIMIT.depth = 0
        _controls()[1](_LIMIT.before)  # type: ignore[index]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def on_one_thread(product: Callable[..., Any], *args: Any) -> Any:
    """Calls product(*args) with OpenBLAS limited to the calling thread."""
    controls = _controls()
    if controls is None:
        return product(*args)
    get, put = controls
    entered = False  # KeyboardInterrupt may be raised after any call, also after get and put
    try:
        with _LIMIT.lock:
            if not _LIMIT.depth:
                _LIMIT.before = get()
            _LIMIT.depth += 1
            entered = True
            if _LIMIT.depth == 1:
                put(1)
        return product(*args)
    finally:
        if entered:
            with _LIMIT.lock:
                _LIMIT.depth -= 1
                if not _LIMIT.depth:
                    put(_LIMIT.before)
