"""PyTorch's decorator of a program's main function: here an error of a rank is reported as it is."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def record(fn: T, error_handler: object = None) -> T:
    """The function as it is.

    >>> @ag.distributed.elastic.multiprocessing.errors.record
    ... def main():
    ...     return 0
    >>> main()
    0
    """
    return fn
