"""Computations of several passes on the CPU, by blocks that stay in the L2 cache; large arrays on all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend.cpu.rows import Blocks

Array = np.ndarray
BLOCK = 65536  # elements


def over_rows(work: Callable[..., None], *arrays: Array) -> None:
    """Calls work(k, *blocks) for each block k of rows of arrays of one shape, taken as matrices."""
    rows, cols = arrays[0].size // max(arrays[0].shape[-1], 1), arrays[0].shape[-1]
    matrices, blocks = [a.reshape(rows, cols) for a in arrays], Blocks(rows, cols, BLOCK)
    blocks.run(lambda i, j: work(i // blocks.step, *[m[i:j] for m in matrices]))


def elementwise(function: Callable[..., Array], arrays: tuple[Any, ...], attributes: dict[str, Any]) -> Array:
    """function(np, *arrays, **attributes), by blocks if the arrays are contiguous, of one shape and one dtype."""
    head = arrays[0]
    for array in arrays:
        if type(array) is not np.ndarray or array.shape != head.shape or array.dtype != head.dtype:
            return function(np, *arrays, **attributes)
        if not array.flags.c_contiguous:
            return function(np, *arrays, **attributes)
    out = backend.empty(np, head.shape, head.dtype)
    *flat, target = [array.reshape(-1) for array in (*arrays, out)]

    def work(i: int, j: int) -> None:
        target[i:j] = function(np, *[array[i:j] for array in flat], **attributes)

    Blocks(head.size, 1, BLOCK).run(work)
    return out
