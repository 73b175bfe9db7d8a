"""Sums of float32 and float64 NumPy arrays whose rounding error hardly grows with the number of terms.

NumPy adds pairwise along the dimension that lies innermost in memory, and one term after the other along every
other: the rows of a float32 matrix of ones add up to 2 ** 24 at most. Here such rows are summed by blocks, then the
sums of the blocks in the same way. The sum of a block with few columns is a product with ones, for which BLAS takes a
tenth of the time that NumPy's loop over short rows takes. The ones meet no zeros, so that NaN and infinities come out
as of a plain sum.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import cpu, pool
from .cpu import ones

BLOCK = 64  # terms that are added one after the other
LARGEST = 1 << 13  # elements of a product below which OpenBLAS, whose limit is 9216, wakes no threads
NARROW = 8  # columns apart in memory up to which it is faster to sum one by one
LONG = 32  # terms from which on NumPy's pairwise loop is worth its call

_add: Any = np.add.reduce  # mypy finds no overload for it in the stubs of NumPy 2.5


def total(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    """np.add.reduce of float32 or float64; `axis` is None, an int in range, or a tuple of them."""
    if not 0 < x.size <= cpu.FEW:
        return _of_many(x, axis, keepdims)
    if axis is None:
        return x.reshape(1, x.size).dot(ones(x.size, x.dtype)).reshape((1,) * x.ndim if keepdims else ())
    if type(axis) is not int or x.ndim != 2:
        return _add(x, axis, None, None, keepdims)
    if axis == 1 or axis == -1:
        out = x.dot(ones(x.shape[1], x.dtype))
        return out[:, None] if keepdims else out
    out = ones(x.shape[0], x.dtype).dot(x)
    return out[None] if keepdims else out


def _of_many(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """By NumPy where it adds pairwise or little, else by blocks."""
    ndim, contiguous = x.ndim, x.flags.c_contiguous
    if contiguous:
        if axis is None or axis == -1 or axis == ndim - 1 or not x.size:
            return _add(x, axis, None, None, keepdims)
        if ndim == 2 and (axis == 0 or axis == -2):
            out = rows(x)
            return out[None] if keepdims else out
    axes = as_axes(axis, ndim)
    if math.prod([x.shape[d] for d in axes]) > BLOCK and x.size:
        plan = _plan(x.shape, x.strides, axes)
        if plan is not None:
            return _planned(x, plan, keepdims)
    return _add(x, axes, None, None, keepdims)


# ---- rows --------------------------------------------------------------------------------------------


def rows(x: np.ndarray) -> Any:
    """The sum over the last dimension but one of (..., n, m)."""
    n, m = x.shape[-2:]
    if m == 1:
        return _add(x, -2)
    dense = x.strides[-1] == x.itemsize and x.strides[-2] >= m * x.itemsize
    if dense and n * m <= LARGEST and n <= 2 * BLOCK:
        return ones(n, x.dtype).dot(x) if x.ndim == 2 else np.matmul(ones(n, x.dtype), x)
    if n <= BLOCK:
        return _add(x, -2)
    if not dense and m <= NARROW:
        return np.stack([_add(x[..., j], -1) for j in range(m)], -1)
    return rows(_blocks(x, dense))


def _blocks(x: np.ndarray, dense: bool) -> np.ndarray:
    """The sums of blocks of rows: (..., number of blocks, m)."""
    *lead, n, m = x.shape
    size = BLOCK if BLOCK * m <= LARGEST else BLOCK // 2
    product = dense and size * m <= LARGEST
    size = size if product else BLOCK
    count, rest = divmod(n, size)
    parts = pool.empty((*lead, count + (rest > 0), m), x.dtype)
    body, tail = x[..., : n - rest, :].reshape(*lead, count, size, m), x[..., n - rest :, :]
    if product:
        np.matmul(ones(size, x.dtype), body, out=parts[..., :count, :])
    else:
        _add(body, -2, None, parts[..., :count, :])
    if rest:
        _add(tail, -2, None, parts[..., count, :])
    return parts


# ---- any dimensions ------------------------------------------------------------------------------------


def as_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """None, an int, or ints as a tuple of numbers from 0 on."""
    if axis is None:
        return tuple(range(ndim))
    return (axis % ndim,) if isinstance(axis, int) else tuple([d % ndim for d in axis])


class Layout:
    """How to sum over `axes` of an array of this shape and these strides, its dimensions ordered as they lie in memory.

    Dimensions of size 1 are left out, and those of stride 0: terms of summed ones count `times` times, the result is
    stretched along kept ones. Neighbours that are one in memory are one where both are summed, or both kept.
    """

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self.times = math.prod([shape[d] for d in axes if not strides[d]])
        dims = [d for d, size in enumerate(shape) if size != 1 and strides[d]]
        self.key = tuple([slice(None) if d in dims else 0 for d in range(len(shape))])
        self.order = tuple(sorted(range(len(dims)), key=lambda i: -abs(strides[dims[i]])))
        dims = [dims[i] for i in self.order]
        self.shape: list[int] = []
        self.summed: list[bool] = []
        for i, d in enumerate(dims):
            summed = d in axes
            if i and self.summed[-1] is summed and strides[dims[i - 1]] == shape[d] * strides[d]:
                self.shape[-1] *= shape[d]
            else:
                self.shape.append(shape[d])
                self.summed.append(summed)
        kept = [d for d in dims if d not in axes]
        self.kept = tuple([shape[d] for d in kept])
        self.back = tuple(sorted(range(len(kept)), key=kept.__getitem__))
        self.found = tuple([shape[d] if d in kept else 1 for d in range(len(shape))])
        self.result_kept = tuple([1 if d in axes else size for d, size in enumerate(shape)])
        self.result = tuple([size for d, size in enumerate(shape) if d not in axes])
        self.repeats = self.times > 1 or self.found != self.result_kept

    def scattered(self) -> int:
        """How many sums of neighbours in memory, or terms where those are kept, make one element."""
        sizes = [size for size, summed in zip(self.shape, self.summed, strict=True) if summed]
        return math.prod(sizes[:-1] if self.summed[-1:] == [True] else sizes)

    def arranged(self, x: Any) -> Any:
        """A view of x in the order of memory."""
        return x[self.key].transpose(self.order).reshape(self.shape)

    def restored(self, xp: Any, y: Any, keepdims: bool) -> Any:
        """The result, a fresh array, from the sums over the arranged dimensions."""
        y = y * y.dtype.type(self.times) if self.times > 1 else y
        y = y.reshape(self.kept).transpose(self.back).reshape(self.found)
        y = y if self.found == self.result_kept else xp.broadcast_to(y, self.result_kept).copy()
        return y if keepdims else y.reshape(self.result)


layout = functools.lru_cache(1024)(Layout)


@functools.lru_cache(1024)
def _plan(shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]) -> Layout | None:
    """None where NumPy adds few terms but by pairs."""
    found = Layout(shape, strides, axes)
    return found if found.repeats or found.scattered() > BLOCK else None


def _planned(x: np.ndarray, plan: Layout, keepdims: bool) -> Any:
    y, summed = plan.arranged(x), list(plan.summed)
    while True in summed:
        pairwise = summed[-1] and (y.shape[-1] >= LONG or summed.count(True) == 1)
        at = y.ndim - 1 if pairwise else summed.index(True)
        y = _add(y, -1) if pairwise else rows(np.moveaxis(y, at, -2))
        del summed[at]
    return plan.restored(np, y, keepdims)
