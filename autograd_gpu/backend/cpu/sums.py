"""Sums of float32 and float64 NumPy arrays with a rounding error that hardly grows with the number of terms.

NumPy sums pairwise along the innermost dimension in memory, and sequentially along the others: a float32 matrix of ones
sums to at most 2 ** 24 over its rows. Here rows are summed by blocks, then the block sums in the same way. A block with
few columns is summed by a product with a vector of ones, for which BLAS takes a tenth of the time of NumPy's loop over
short rows. All its weights are ones, none zero, so NaN and infinities give the same result as in a plain sum.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import numpy_ops, pool
from .blas import SMALL_VECTOR
from .numpy_ops import add_reduce, ones

BLOCK = 64  # maximum rows of a block that is summed by a product
FEW_ROWS = 128  # rows up to which a sequential sum is exact enough
SHORT = 16  # minimum rows of a block for a product to be faster
SLOW = 1 << 14  # elements above which the search for the fastest order of dimensions pays off
MANY = 1 << 20  # elements from which the block sums use pooled memory
NARROW = 8  # columns up to which adding them, or summing each by itself if they are not adjacent, is faster
WIDE = 64  # adjacent columns up to which the rows of each matrix in a batch are summed by a product
LONG = 256  # adjacent elements from which NumPy's pairwise loop is worth its call overhead


def total(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    """np.add.reduce of float32 or float64 over `axis`: None, an int in range, or a tuple of ints."""
    n = x.size
    if not 0 < n <= numpy_ops.FEW:
        if (axis is None or axis == -1 or axis == x.ndim - 1) and (x.flags.c_contiguous or x.ndim == 1):
            if axis is not None and x.ndim > 1 and 0 < x.shape[-1] < NARROW:
                return _of_columns(x, keepdims)
            if n >= 4 * SMALL_VECTOR and x.flags.c_contiguous:
                return _of_all(x, axis, keepdims)
            return add_reduce(x, axis, None, None, keepdims)
        return _of_many(x, axis, keepdims)
    if axis is None:
        return x.reshape(1, n).dot(ones(n, x.dtype)).reshape((1,) * x.ndim if keepdims else ())
    if type(axis) is not int or x.ndim != 2:
        return add_reduce(x, axis, None, None, keepdims)
    if axis == 1 or axis == -1:
        out = x.dot(ones(x.shape[1], x.dtype))
        return out[:, None] if keepdims else out
    out = ones(x.shape[0], x.dtype).dot(x)
    return out[None] if keepdims else out


def _of_all(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The sum of all elements, or of adjacent ones, by products of LONG elements with ones: a third of the time."""
    if axis is None:
        whole = x.size - x.size % LONG
        flat = x.reshape(-1)
        out = add_reduce(_of_rows(flat[:whole].reshape(-1, LONG)), None) + add_reduce(flat[whole:], None)
        return out.reshape((1,) * x.ndim) if keepdims else out
    if not LONG // 4 <= x.shape[-1] <= 4 * LONG:
        return add_reduce(x, axis, None, None, keepdims)
    return _of_rows(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], *([1] if keepdims else []))


def _of_rows(x: np.ndarray) -> np.ndarray:
    """The sum of each row of a matrix, by products of SMALL_VECTOR elements."""
    n, m = x.shape
    step = SMALL_VECTOR // m
    whole, weights, out = n - n % step, ones(m, x.dtype), np.empty(n, x.dtype)
    np.matmul(x[:whole].reshape(-1, step, m), weights, out=out[:whole].reshape(-1, step))
    np.matmul(x[whole:], weights, out=out[whole:])
    return out


def _of_columns(x: np.ndarray, keepdims: bool) -> np.ndarray:
    """The sum over the last dimension of few elements, in NumPy's order, without its loop for every row.

    For two or three coordinates of thousands of points that takes a twentieth of the time.
    """
    out = np.array(x[..., 0])
    for j in range(1, x.shape[-1]):
        out += x[..., j]
    return out[..., None] if keepdims else out


def _of_many(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The sum by NumPy where that is pairwise or has few terms, by columns or products where rows are short."""
    shape, contiguous = x.shape, x.flags.c_contiguous
    short = contiguous and x.ndim > 1 and 0 < shape[-1] <= WIDE
    if type(axis) is int and x.ndim > 2 and shape[axis] <= FEW_ROWS and not short:
        return add_reduce(x, axis, None, None, keepdims)
    axes, leading, trailing = _named(axis, x.ndim)
    if contiguous and trailing:
        columns = short and shape[-1] < NARROW and len(axes) == 1
        return _of_columns(x, keepdims) if columns else add_reduce(x, axis, None, None, keepdims)
    if short and x.ndim > 2 and axes == (x.ndim - 2,) and 0 < shape[-2] <= FEW_ROWS:
        return rows(x)[..., None, :] if keepdims else rows(x)
    terms = shape[axes[0]] if len(axes) == 1 else math.prod([shape[d] for d in axes])
    if leading and x.size and (terms > FEW_ROWS or x.size <= SMALL_VECTOR):
        if x.ndim == 2 and len(axes) == 1 and x.strides[0] >= x.strides[1] * shape[1] > 0:
            out = rows(x)
            return out[None] if keepdims else out
        rest = shape[len(axes) :]
        if contiguous:
            return rows(x.reshape(terms, x.size // terms)).reshape((1,) * len(axes) + rest if keepdims else rest)
    plan = _plan(shape, x.strides, axes) if x.size and terms > FEW_ROWS else None
    return add_reduce(x, axes, None, None, keepdims) if plan is None else _planned(x, plan, keepdims)


@functools.lru_cache(1024)
def _named(axis: Any, ndim: int) -> tuple[tuple[int, ...], bool, bool]:
    """`axis` as non-negative dimensions, and whether these are the leading, and the trailing, dimensions."""
    axes = as_axes(axis, ndim)
    ordered, n = tuple(sorted(axes)), len(axes)
    return axes, ordered == tuple(range(n)), ordered == tuple(range(ndim - n, ndim))


# ---- rows --------------------------------------------------------------------------------------------


def rows(x: np.ndarray) -> Any:
    """The sum of (..., n, m) over the dimension of size n."""
    n, m = x.shape[-2:]
    if m == 1:
        return add_reduce(x, -2)
    dense = x.strides[-1] == x.itemsize and x.strides[-2] >= m * x.itemsize
    if n <= FEW_ROWS:
        if not dense or n * m > SMALL_VECTOR:
            return add_reduce(x, -2)
        return ones(n, x.dtype).dot(x) if x.ndim == 2 else np.matmul(ones(n, x.dtype), x)
    if not dense and m <= NARROW:
        return np.stack([add_reduce(x[..., j], -1) for j in range(m)], -1)
    return rows(_of_blocks(x, dense))


@functools.lru_cache(1024)
def block(n: int, m: int, dense: bool) -> tuple[int, bool]:
    """The rows per block of n rows, a divisor of n if a large one exists, and whether a product sums the block."""
    product = dense and SHORT * m <= SMALL_VECTOR
    most = min(BLOCK, SMALL_VECTOR // m) if product else FEW_ROWS
    return next((size for size in range(most, most // 2, -1) if n % size == 0), most), product


def _of_blocks(x: np.ndarray, dense: bool) -> np.ndarray:
    """The sums over blocks of rows: (..., n, m) -> (..., number of blocks, m)."""
    *lead, n, m = x.shape
    size, product = block(n, m, dense)
    count, rest = divmod(n, size)
    if not rest and x.size < MANY:
        x = x.reshape(*lead, count, size, m)
        return np.matmul(ones(size, x.dtype), x) if product else add_reduce(x, -2)
    parts = pool.empty((*lead, count + (rest > 0), m), x.dtype)
    whole = parts
    if rest:
        add_reduce(x[..., n - rest :, :], -2, None, parts[..., count, :])
        x, whole = x[..., : n - rest, :], parts[..., :count, :]
    x = x.reshape(*lead, count, size, m)
    if product:
        np.matmul(ones(size, x.dtype), x, out=whole)
    else:
        add_reduce(x, -2, None, whole)
    return parts


# ---- any dimensions ------------------------------------------------------------------------------------


def as_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis` (None, an int or ints) as a tuple of non-negative dimensions."""
    if axis is None:
        return tuple(range(ndim))
    return (axis % ndim,) if isinstance(axis, int) else tuple([d % ndim for d in axis])


class Layout:
    """The plan of a sum over `axes` of an array of this shape and strides, with the dimensions in memory order.

    Dimensions of size 1 and of stride 0 are dropped: an expanded summed dimension multiplies the result by `times`, an
    expanded kept dimension expands the result. Adjacent dimensions are merged if they are contiguous and both summed or
    both kept.
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
        """The number of terms per result element that are not adjacent, and so not in NumPy's pairwise loop."""
        sizes = [size for size, summed in zip(self.shape, self.summed, strict=True) if summed]
        return math.prod(sizes[:-1] if self.summed[-1:] == [True] else sizes)

    def arranged(self, x: Any) -> Any:
        """x as a view with its merged dimensions in memory order."""
        return x[self.key].transpose(self.order).reshape(self.shape)

    def restored(self, xp: Any, y: Any, keepdims: bool) -> Any:
        """The result as a new array, from `y`, the sums over the arranged dimensions."""
        y = y * y.dtype.type(self.times) if self.times > 1 else y
        y = y.reshape(self.kept).transpose(self.back).reshape(self.found)
        y = y if self.found == self.result_kept else xp.broadcast_to(y, self.result_kept).copy()
        return y if keepdims else y.reshape(self.result)


@functools.lru_cache(1024)
def _plan(shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]) -> Layout | None:
    """The plan of the sum; None where NumPy is fast and sums few terms sequentially.

    NumPy is slow for many short rows that are not adjacent.
    """
    layout = Layout(shape, strides, axes)
    short = layout.summed.count(True) > 1 and layout.shape[-1] < LONG and math.prod(layout.shape) > SLOW
    return layout if layout.repeats or short or layout.scattered() > FEW_ROWS else None


def _planned(x: np.ndarray, plan: Layout, keepdims: bool) -> Any:
    y, summed = plan.arranged(x), list(plan.summed)
    while True in summed:
        pairwise = summed[-1] and (y.shape[-1] >= LONG or summed.count(True) == 1)
        at = y.ndim - 1 if pairwise else summed.index(True)
        y = add_reduce(y, -1) if pairwise else _along(y, at)
        del summed[at]
    return plan.restored(np, y, keepdims)


def _along(y: np.ndarray, at: int) -> Any:
    """The sum over dimension `at`, which is not the last."""
    if at == y.ndim - 2:
        return rows(y)
    if not y.flags.c_contiguous:
        return rows(np.moveaxis(y, at, -2))
    after = y.shape[at + 1 :]
    return rows(y.reshape(*y.shape[: at + 1], math.prod(after))).reshape(*y.shape[:at], *after)
