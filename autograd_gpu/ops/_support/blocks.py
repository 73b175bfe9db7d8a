"""Computations of several passes on the CPU, by blocks that stay in the L2 cache; large arrays on all cores."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend.cpu.rows import SHARED_BLOCK, Blocks

Array = np.ndarray
BLOCK = 65536  # elements
DOUBLES = 16384  # elements of float64 with several temporaries


def over_rows(work: Callable[..., None], *arrays: Array) -> None:
    """Calls work(k, *blocks) for each block k of rows of arrays of one shape, taken as matrices."""
    rows, cols = arrays[0].size // max(arrays[0].shape[-1], 1), arrays[0].shape[-1]
    matrices, blocks = [a.reshape(rows, cols) for a in arrays], Blocks(rows, cols, SHARED_BLOCK)
    blocks.run(lambda i, j: work(i // blocks.step, *[m[i:j] for m in matrices]))


def elementwise(
    function: Callable[..., Array], arrays: tuple[Any, ...], attributes: dict[str, Any], block: int = BLOCK
) -> Array:
    """function(np, *arrays, **attributes), by blocks if the arrays are contiguous, of one shape and one dtype.

    Numbers and 0-d arrays go to each block. A function whose last operand is `into` may write to that, the block of the
    result, and return it.
    """
    large = [array for array in arrays if getattr(array, "ndim", 0)]
    head = large[0] if large else np.empty(0)
    for array in large or arrays:
        if type(array) is not np.ndarray or array.shape != head.shape or array.dtype != head.dtype:
            return function(np, *arrays, **attributes)
        if not array.flags.c_contiguous:
            return function(np, *arrays, **attributes)
    out = backend.empty(np, head.shape, head.dtype)
    target = out.reshape(-1)
    flat = [array.reshape(-1) if getattr(array, "ndim", 0) else array for array in arrays]
    writes = _writes(function)

    def work(i: int, j: int) -> None:
        parts, into = [a[i:j] if getattr(a, "ndim", 0) else a for a in flat], target[i:j]
        result = function(np, *parts, into, **attributes) if writes else function(np, *parts, **attributes)
        if result is not into:
            into[...] = result

    Blocks(head.size, 1, block).run(work)
    return out


@functools.lru_cache(1024)
def _writes(function: Callable[..., Any]) -> bool:
    return "into" in inspect.signature(function).parameters
