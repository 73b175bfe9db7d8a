"""Sums of NumPy and CuPy arrays with a small rounding error."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels
from ..cpu import numpy_ops
from ..cpu import sums as cpu_sums
from ..cpu.blas import SMALL_VECTOR, on_one_thread
from ..cuda import sums as cuda_sums
from .dtypes import FLOATS, FULL_FLOATS, wide
from .memory_format import row_major
from .namespace import is_cuda, namespace


def total(xp: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of a float32 or float64 array over `axis`: None, an int in range, or a tuple of ints.

    Replaces xp.sum and x.sum, whose sums over a leading dimension are wrong by 1 % for a million float32 terms.
    """
    return cpu_sums.total(x, axis, keepdims) if xp is np else cuda_sums.total(xp, x, axis, keepdims)


def sum_of_squares(xp: Any, x: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The sum of x * x over `axes`, which are kept, or of all elements; with NumPy by BLAS if memory allows."""
    whole = axes is None
    if xp is not np or not (x.flags.c_contiguous if whole else axes == (-1,)):
        return total(xp, x * x, axes, not whole)
    terms, product = (x.size, np.vdot) if whole else (x.shape[-1], np.vecdot)
    result = product(x, x) if terms <= SMALL_VECTOR else on_one_thread(product, x, x)
    return result if whole else result[..., None]


def inner(xp: Any, a: Any, b: Any) -> Any:
    """The dot product of two vectors of one dtype; with NumPy on the calling thread."""
    return xp.dot(a, b) if xp is not np or a.size <= SMALL_VECTOR else on_one_thread(np.dot, a, b)


FACTORS, SHORT = 2048, 32  # all factors, or those of one product, which np.multiply.reduce takes one by one
_METHODS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def reduce(xp: Any, ufunc: str, x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
    """ufunc.reduce; with NumPy twice as fast as the functions such as np.sum, which check for overrides."""
    if xp is np:
        if ufunc == "multiply" and x.size > FACTORS and axis in (None, -1, x.ndim - 1) and dtype is None:
            return _product(x, axis, keepdims)
        return getattr(np, ufunc).reduce(x, axis, dtype, None, keepdims)
    keywords = {} if dtype is None else {"dtype": dtype}
    return getattr(xp, _METHODS[ufunc])(x, axis=axis, keepdims=keepdims, **keywords)


def _product(x: np.ndarray, axis: Any, keepdim: bool) -> Any:
    """The product of all elements, or of adjacent ones, by halves: np.multiply.reduce takes them one by one."""
    ndim = x.ndim
    rows = x.reshape(-1) if axis is None else x
    while rows.size > FACTORS and (n := rows.shape[-1]) > SHORT:
        half = n // 2
        products = rows[..., :half] * rows[..., half : 2 * half]
        if n % 2:
            products[..., 0] *= rows[..., -1]
        rows = products
    ufunc: Any = np.multiply
    out = ufunc.reduce(rows, -1, None, None, keepdim)
    return out.reshape((1,) * ndim) if axis is None and keepdim else out


def truth(xp: Any, name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """any or all, by `name`, as an array; with NumPy a count where that is faster."""
    if xp is not np:
        return getattr(xp, name)(x, axis=axis, keepdims=keepdims)
    if axis is None and not keepdims and (x.size <= numpy_ops.FEW or x.dtype.kind == "b"):
        n = np.count_nonzero(x)
        return np.asarray(n != 0 if name == "any" else n == x.size)
    reduction: Any = np.logical_or if name == "any" else np.logical_and
    return reduction.reduce(x, axis, None, None, keepdims)


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sums `array` over the dimensions that broadcasting from `shape` added or expanded; keeps the dtype.

    Returns `array` itself if it has that shape, otherwise a contiguous array.
    """
    dtype = array.dtype
    if array.ndim == 2 and len(shape) == 1 and shape[0] == array.shape[1]:  # a bias gradient
        if type(array) is np.ndarray and dtype in FULL_FLOATS:
            return cpu_sums.total(array, 0)
        if dtype in FLOATS and is_cuda(array):
            return kernels.column_sum(kernels.contiguous(array))
    lead = array.ndim - len(shape)
    axes = (*range(lead), *[i for i, size in enumerate(shape, lead) if size == 1 and array.shape[i] != 1])
    if not axes:
        return array
    if type(array) is np.ndarray and dtype in FULL_FLOATS:
        out = cpu_sums.total(array, axes if len(axes) < array.ndim else None).reshape(shape)
    elif dtype not in FLOATS:
        out = array.sum(axis=axes, dtype=dtype).reshape(shape)
    else:
        wider = array.astype(wide(dtype), copy=False)  # in float16 4000 ones would add up to 2048
        out = total(namespace(array), wider, axes).reshape(shape).astype(dtype, copy=False)
    return out if out.flags.c_contiguous else row_major(out)
