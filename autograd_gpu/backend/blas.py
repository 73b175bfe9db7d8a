"""One BLAS thread for small matrix products.

OpenBLAS wakes its threads for products from 0.3 million multiply-adds on. Below two million that gains little when the
machine is idle, half of the result then lies in another core's cache, and the woken threads spin: an SGD step of
784-256-256-10 at batch 8 takes 0.29 ms with one thread, 0.28 to 0.42 ms with two, and 60 times that when another
process wants the second core. So such products run with the limit set to 1, which is put back at once.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

SMALLEST, LARGEST = 1 << 18, 1 << 21  # multiply-adds between which OpenBLAS uses threads and should not

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
          "openblas_{}_num_threads")  # fmt: skip


class _Limit:
    """How many calls are under the limit, and what the limit was before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.before = 1


_LIMIT = _Limit()


@functools.cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """get and set of the OpenBLAS inside NumPy's wheel; None where NumPy uses another BLAS."""
    root = pathlib.Path(np.__file__).parent
    for path in [*root.parent.glob("numpy.libs/*openblas*"), *root.glob(".dylibs/*openblas*")]:
        library = ctypes.CDLL(str(path))  # loaded by NumPy already: this finds that one
        for name in _NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def on_one_thread(product: Callable[..., Any], *args: Any) -> Any:
    """product(*args), for which OpenBLAS may use the calling thread only."""
    controls = _controls()
    if controls is None:
        return product(*args)
    get, put = controls
    with _LIMIT.lock:
        if not _LIMIT.depth:
            _LIMIT.before = get()
            put(1)
        _LIMIT.depth += 1
    try:
        return product(*args)
    finally:
        with _LIMIT.lock:
            _LIMIT.depth -= 1
            if not _LIMIT.depth:
                put(_LIMIT.before)
