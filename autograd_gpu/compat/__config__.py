"""How the package runs here, as text: the report of `python -m autograd_gpu info`."""

from __future__ import annotations

from .. import info
from ..backend.cpu import threads


def show() -> str:
    """A report of versions, processor, BLAS and CUDA.

    >>> print(ag.__config__.show())  # doctest: +ELLIPSIS
    Python: ...
    """
    return "\n".join([f"{subject}: {text}" if subject else f"  {text}" for subject, text in info.lines()])


def parallel_info() -> str:
    """How many threads operations on the CPU use.

    >>> print(ag.__config__.parallel_info())  # doctest: +ELLIPSIS
    ag.get_num_threads(): ...
    """
    return f"ag.get_num_threads(): {threads.get_num_threads()}"


__all__ = ["parallel_info", "show"]
