"""Sums of float32 and float64 CuPy arrays whose rounding error hardly grows with the number of terms.

CuPy gives an element of the result to one block: its 512 threads each add their share one term after the other, and
what they found is added pairwise. Where the elements are neighbours in memory, up to 32 of them share the block, so
that 16 threads walk along each. Beyond a few terms per thread the sum goes to our kernels, whose threads are more
the more terms there are (tiles.py).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from .. import kernels
from ..arrays.dtypes import FULL_FLOATS
from ..cpu.sums import Layout, as_axes

Array = Any  # cupy.ndarray

MANY_ROWS = 1 << 10  # terms of elements that are neighbours: 64 to a thread
LONG_ROW = 1 << 15  # terms that are neighbours themselves: 64 to a thread

_layout = functools.lru_cache(1024)(Layout)


def total(xp: Any, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """x.sum(axis, keepdims=keepdims) of float32 or float64."""
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
    """The sum over the last dimension; of everything by CUB, which has all blocks work on it."""
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
    """The sums over dimension 1 of three: of blocks of rows first."""
    count, n, width = matrices.shape
    if n <= MANY_ROWS:
        return matrices.sum(axis=1)
    rest = n % MANY_ROWS
    blocks = matrices[:, : n - rest].reshape(count, -1, MANY_ROWS, width).sum(axis=2)
    out = _by_blocks(blocks)
    return out + matrices[:, n - rest :].sum(axis=1) if rest else out
