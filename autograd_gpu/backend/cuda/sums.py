"""Sums of float32 and float64 CuPy arrays with a rounding error that hardly grows with the number of terms.

CuPy sums each result element in one block: 512 threads sum their terms sequentially, and their partial sums are added
pairwise. If the result elements are adjacent in memory, up to 32 of them share the block, with 16 threads for each.
Beyond a few terms per thread our kernels sum instead, whose number of threads grows with the number of terms
(kernels/tiles.py).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from .. import kernels
from ..arrays.dtypes import FULL_FLOATS
from ..cpu.sums import Layout, as_axes

Array = Any  # cupy.ndarray

MANY_ROWS = 1 << 10  # terms per element of a column sum: 64 per thread
LONG_ROW = 1 << 15  # terms per element of a row sum: 64 per thread

_layout = functools.lru_cache(1024)(Layout)


def total(xp: Any, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """x.sum(axis, keepdims=keepdims) of a float32 or float64 array."""
    axes = as_axes(axis, x.ndim)
    if not x.size or x.dtype not in FULL_FLOATS or math.prod([x.shape[d] for d in axes]) <= MANY_ROWS:
        return x.sum(axis=axis, keepdims=keepdims)
    plan = _layout(x.shape, x.strides, axes)
    y, summed = plan.arranged(x), list(plan.summed)
    while True in summed:
        at = len(summed) - 1 if summed[-1] else summed.index(True)
        y = _along_rows(y) if summed[-1] else _down_columns(y, at)
        del summed[at]
    return plan.restored(xp, y, keepdims)


def _along_rows(y: Array) -> Array:
    """The sum over the last dimension; a vector is summed by CUB, which uses many blocks."""
    whole = y.ndim == 1 and y.flags.c_contiguous
    return y.sum(axis=-1) if whole or y.shape[-1] <= LONG_ROW else kernels.row_sum(kernels.contiguous(y))


def _down_columns(y: Array, at: int) -> Array:
    """The sum over dimension `at`, which is not the last."""
    before, n, after = y.shape[:at], y.shape[at], y.shape[at + 1 :]
    if n <= MANY_ROWS:
        return y.sum(axis=at)
    matrices: Array = kernels.contiguous(y)
    matrices = matrices.reshape(math.prod(before), n, math.prod(after))
    out = _by_blocks(matrices) if len(matrices) > 1 else kernels.column_sum(matrices[0])
    return out.reshape(*before, *after)


def _by_blocks(matrices: Array) -> Array:
    """The sum of (count, n, width) over n, first by blocks of rows."""
    count, n, width = matrices.shape
    if n <= MANY_ROWS:
        return matrices.sum(axis=1)
    rest = n % MANY_ROWS
    blocks = matrices[:, : n - rest].reshape(count, -1, MANY_ROWS, width).sum(axis=2)
    out = _by_blocks(blocks)
    return out + matrices[:, n - rest :].sum(axis=1) if rest else out
