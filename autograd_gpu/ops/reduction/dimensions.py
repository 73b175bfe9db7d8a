"""The dimensions of a reduction, and sums over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.reductions import reduce, total
from ...backend.cpu import numpy_ops
from ..indexing.basic_index import from_right, wrap_dim


def axes(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`dim` as negative axes, the rightmost first; None and () mean all dimensions."""
    if type(dim) is int and ndim:
        return (wrap_dim(dim, ndim) - ndim,)
    if isinstance(dim, np.integer):
        dim = int(dim)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(-1, -ndim - 1, -1))
    dims = (dim,) if isinstance(dim, int) else dim
    wrapped = [wrap_dim(d, ndim) for d in dims]
    if len(set(wrapped)) < len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(sorted([from_right(d, ndim) for d in wrapped], reverse=True)) if ndim else ()


def numpy_axis(dim: Any, ndim: int) -> Any:
    """`dim` as NumPy and CuPy take it: None, one axis, or several."""
    if dim is None or (type(dim) is int and -ndim <= dim < ndim):
        return dim
    return axes(dim, ndim)


def negative_axes(dim: Any, ndim: int) -> Any:
    """`dim` as negative axes, or None."""
    return None if dim is None else axes(dim, ndim)


def restore_dims(F: Any, y: Any, x_shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The result of a reduction with the reduced dimensions restored, of size 1."""
    if keepdim or not x_shape:
        return y
    if type(dim) is int:
        return F.unsqueeze(y, from_right(dim, len(x_shape)))
    for axis in axes(dim, len(x_shape)):
        y = F.unsqueeze(y, axis)
    return y


def expand_grad(F: Any, g: Any, x_shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a sum, expanded to the shape of the input."""
    return F.expand(g if dim is None else restore_dims(F, g, x_shape, dim, keepdim), x_shape)


def reduced_size(x_shape: tuple[int, ...], dim: Any) -> int:
    """The number of elements that are reduced to one element of the result."""
    if type(dim) is int and x_shape:
        return x_shape[wrap_dim(dim, len(x_shape))]
    return math.prod(x_shape if dim is None else [x_shape[axis] for axis in axes(dim, len(x_shape))])


def ufunc_reduce(xp: Any, reduction: str, x: Any, dim: Any, keepdim: bool, dtype: Any = None) -> Any:
    """ufunc.reduce over `dim`."""
    return reduce(xp, reduction, x, numpy_axis(dim, x.ndim), keepdim, dtype)


def as_rows(x: Any, dim: Any, keepdim: bool, copies: bool = False) -> tuple[Any, tuple[int, ...]] | None:
    """A CuPy array as a matrix whose rows are reduced, and the shape of the result: for kernels/row_statistic.cu.

    None for rows that are too long for it, for integers, and, unless it `copies`, for other than the last dimensions.
    """
    dims, n = axes(dim, x.ndim), reduced_size(x.shape, dim)
    last = len(dims) == -min(dims, default=0)
    if n > kernels.LONGEST_ROW or x.dtype not in dtypes.FLOATS or not (last or copies):
        return None
    kept = [axis for axis in range(-x.ndim, 0) if axis not in dims]
    rows = math.prod([x.shape[axis] for axis in kept])
    shape = tuple([x.shape[axis] if axis in kept else 1 for axis in range(-x.ndim, 0) if keepdim or axis in kept])
    matrix = (x if last else x.transpose(*kept, *sorted(dims))).reshape(rows, n)
    return kernels.contiguous(matrix), shape


def statistic_of_rows(
    name: str, forward: Callable[..., Any], applies: Callable[..., bool] = lambda: True
) -> Callable[..., Any]:
    """`forward` on CuPy arrays: by one launch of kernels.row_statistic for short rows, in the dtype of x.

    `applies` gets the attributes beside dim, keepdim and dtype, and says whether that computes `name`.
    """

    def run(xp: Any, x: Any, *, dim: Any = None, keepdim: bool = False, dtype: Any = None, **others: Any) -> Any:
        rows = as_rows(x, dim, keepdim) if dtype is None and applies(**others) else None
        if rows is None:
            return forward(xp, x, dim=dim, keepdim=keepdim, dtype=dtype, **others)
        return kernels.row_statistic(name, *rows)

    return run


def float_sum(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of float32 or float64 over `dim` with a small rounding error."""
    if dim is not None and (type(dim) is not int or not -x.ndim <= dim < x.ndim):
        dim = axes(dim, x.ndim)
    return total(xp, x, dim, keepdim)


def divided_by_count(summed: Any, n: int | float) -> Any:
    """summed / n in the dtype of `summed`; NaN or inf without a warning for n = 0."""
    if n:
        return summed / (numpy_ops.constant(n, summed.dtype) if type(summed) is np.ndarray else n)
    with np.errstate(invalid="ignore"):
        return summed * math.inf


def product_dtype(x: Any, dtype: Any) -> Any:
    """The dtype of a product or a cumulative sum: `dtype`, by default int64 for integers and bools, else that of x."""
    if dtype is not None:
        return dtypes.computing(dtype)
    return x.dtype if x.dtype in dtypes.FLOATS else dtypes.int64


def floating(dtype: Any) -> bool:
    """Whether a reduction of floats with this `dtype` argument returns floats."""
    return dtype is None or dtypes.as_dtype(dtype) in dtypes.FLOATS
