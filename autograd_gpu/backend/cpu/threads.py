"""The number of threads of the CPU's operations."""

from __future__ import annotations

from typing import Any

from . import rows


class _Interop:
    """What `set_num_interop_threads` was told; nothing here runs operations beside each other."""

    count = 1


def _checked(function: str, threads: Any) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise RuntimeError(f"{function} expects an int, but got {type(threads).__name__}")
    if threads <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return threads


def set_num_threads(int: Any) -> None:
    """Sets how many threads an operation on the CPU may use.

    Products and passes over large arrays are cut into blocks for a pool of threads that sleep in between. Large matrix
    decompositions run on the threads of BLAS, which spin in between, and only after this call; on one thread before.
    What you call of NumPy yourself, such as `np.dot`, is not affected: that is `threadpoolctl.threadpool_limits`.
    RuntimeError unless it is a positive integer. Numbers may differ in the last bits between settings, as in PyTorch.

    >>> before = ag.get_num_threads()
    >>> ag.set_num_threads(1)
    >>> ag.get_num_threads()
    1
    >>> ag.set_num_threads(before)
    """
    rows.set_cores(_checked("set_num_threads", int))


def get_num_threads() -> int:
    """How many threads an operation on the CPU may use: at first one for each core of this process.

    >>> ag.get_num_threads() >= 1
    True
    """
    return rows.cores()


def set_num_interop_threads(int: Any) -> None:
    """Accepted for PyTorch's programs, and has no effect: operations run one after another.

    >>> ag.set_num_interop_threads(1)
    """
    _Interop.count = _checked("set_num_interop_threads", int)


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was told last; 1 at first.

    >>> ag.get_num_interop_threads()
    1
    """
    return _Interop.count
