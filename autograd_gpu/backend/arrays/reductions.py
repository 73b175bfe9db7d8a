"""Sums of NumPy and CuPy arrays with a small rounding error."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels
from ..cpu import sums as cpu_sums
from ..cuda import sums as cuda_sums
from .dtypes import FLOATS, FULL_FLOATS, wide
from .namespace import is_cuda, namespace


def total(xp: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of a float32 or float64 array over `axis`: None, an int in range, or a tuple of ints.

    Replaces xp.sum and x.sum, whose sums over a leading dimension are wrong by 1 % for a million float32 terms.
    """
    return cpu_sums.total(x, axis, keepdims) if xp is np else cuda_sums.total(xp, x, axis, keepdims)


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sums `array` over the dimensions that broadcasting from `shape` added or expanded; keeps the dtype."""
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
        return cpu_sums.total(array, axes if len(axes) < array.ndim else None).reshape(shape)
    if dtype not in FLOATS:
        return array.sum(axis=axes, dtype=dtype).reshape(shape)
    wider = array.astype(wide(dtype), copy=False)  # in float16 4000 ones would add up to 2048
    return total(namespace(array), wider, axes).reshape(shape).astype(dtype, copy=False)
