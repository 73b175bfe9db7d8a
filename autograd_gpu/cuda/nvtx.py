"""Ranges and marks on the time line of NVIDIA's profilers, by CuPy's NVTX; without CUDA they do nothing.

PyTorch raises RuntimeError without CUDA; here a program with ranges runs on the CPU, too.

>>> with ag.cuda.nvtx.range("forward"):
...     y = ag.ones(2) * 2
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..backend.cuda import runtime


class _Depth:
    """How many ranges of this process are open where CUDA is not available."""

    count = 0


def _nvtx() -> Any | None:
    return runtime.cupy().cuda.nvtx if runtime.is_available() else None


def range_push(msg: str) -> int:
    """Opens a range of this thread inside of those that are open; returns its depth, from 0.

    >>> ag.cuda.nvtx.range_push("step")
    0
    >>> ag.cuda.nvtx.range_pop()
    0
    """
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.RangePush(msg)
    _Depth.count += 1
    return _Depth.count - 1


def range_pop() -> int:
    """Closes the innermost range of this thread; returns its depth, and -1 if none is open."""
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.RangePop()
    _Depth.count = max(_Depth.count - 1, -1)
    depth, _Depth.count = _Depth.count, max(_Depth.count, 0)
    return depth


def mark(msg: str) -> None:
    """Marks this moment.

    >>> ag.cuda.nvtx.mark("epoch 1")
    """
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context or decorator: a range named msg.format(*args, **kwargs) around its block.

    >>> with ag.cuda.nvtx.range("batch {}", 3):
    ...     y = ag.ones(2) * 2
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_pop", "range_push"]
