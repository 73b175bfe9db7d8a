"""Replacements for NumPy functions that are slow or differ from PyTorch: where, sign, min and max, constants."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..arrays.dtypes import FLOATS, FULL_FLOATS, HALF, float32, float64
from . import pool

MANY_CHOICES = 1 << 13  # elements of a random mask above which `where` is faster than np.where

# Any: mypy finds no overload for these in the stubs of NumPy 2.5, nor in older ones for `keepdims` by position.
add_reduce: Any = np.add.reduce
min_reduce: Any = np.minimum.reduce
max_reduce: Any = np.maximum.reduce

def where(mask: np.ndarray, a: Any, b: Any) -> np.ndarray:
    """np.where(mask, a, b) without branches: b ^ (mask * (a ^ b)) on the bits.

    np.where takes 10 to 50 times as long on a large random mask because of branch mispredictions. Bits are copied, so
    NaN, infinities and -0.0 are preserved.
    """
    arrays = [x for x in (a, b) if isinstance(x, np.ndarray)]
    numbers = [x for x in (a, b) if not isinstance(x, np.ndarray)]
    dtype: Any = arrays[0].dtype if arrays else None
    if mask.dtype != bool or any(x.dtype != dtype for x in arrays) or (numbers and dtype not in FLOATS):
        return np.where(mask, a, b)
    bits = np.dtype(f"u{dtype.itemsize}")
    x, y = (np.asarray(value, dtype).view(bits) for value in (a, b))
    if not x.ndim and not x:
        mask, x, y = np.logical_not(mask), y, x
    same = mask.shape == x.shape and (y.shape == x.shape or not y.ndim)
    if same and not mask.flags.c_contiguous and not x.flags.c_contiguous and 0 not in x.strides:
        result = np.empty_like(x, dtype)  # in the order of x
    else:
        result = pool.empty(x.shape if same else np.broadcast_shapes(mask.shape, x.shape, y.shape), dtype)
    out = result.view(bits)
    out[...] = mask
    if not y.ndim and not y:
        out *= x
    else:
        out *= np.bitwise_xor(x, y, out=pool.empty(x.shape, bits)) if same else x ^ y
        out ^= y
    return result


def sign(x: np.ndarray, out: np.ndarray | None = None) -> Any:
    """np.sign, but 0 for NaN, as in CuPy and PyTorch."""
    dtype = x.dtype
    if x.size >= MANY_CHOICES and dtype in FULL_FLOATS:  # np.sign takes three times as long
        signs = np.subtract(np.greater(x, 0).view(np.int8), np.less(x, 0).view(np.int8))
        return np.add(signs, constant(0, dtype), out=pool.empty(x.shape, dtype) if out is None else out)
    result = np.sign(x, out)
    if dtype is float32 or dtype is float64:  # a result that depends on all elements: NaN if one is NaN
        few = x.size <= MANY
        made = sum(result.ravel().tolist()) if few else min_reduce(result, None)
        if made == made:
            return result
    elif dtype not in HALF:
        return result
    result = np.asarray(result)
    np.copyto(result, 0, where=np.isnan(result), casting="unsafe")
    return result


@functools.cache
def special() -> Any:
    """scipy.special, imported at the first call: it would triple the package's import time."""
    import scipy.special

    return scipy.special


def limited(x: np.ndarray, low: Any, high: Any, out: np.ndarray | None = None) -> np.ndarray:
    """x limited to [low, high]; one of them may be infinite. np.maximum with a number takes three times as long."""
    if x.size > FEW and x.dtype in FULL_FLOATS:
        return np.clip(x, low, high, out=out)
    return np.minimum(np.maximum(x, low, out=out), high, out=out)


# Up to this many elements a dot product with ones takes half the time of np.add.reduce: 0.4 us for a 2x2 matrix.
FEW = 256
MANY = 16  # elements from which NumPy is faster than Python at a minimum, maximum or sum


def ends(array: np.ndarray) -> tuple[Any, Any]:
    """The minimum and the maximum of an integer array; of fewer than MANY elements in Python, which is faster."""
    if array.size < MANY:
        numbers = array.ravel().tolist()
        return min(numbers), max(numbers)
    return array.min(), array.max()


@functools.lru_cache(1024)
def constant(value: float, dtype: np.dtype) -> np.ndarray:
    """`value` as a cached 0-d array, with half the ufunc overhead of a Python number. Do not write to it."""
    return np.asarray(value, dtype)


@functools.lru_cache(1024)
def constants(dtype: np.dtype, *values: float) -> tuple[np.ndarray, ...]:
    """`constant` of several values in one cache lookup."""
    return tuple([constant(value, dtype) for value in values])


@functools.lru_cache(1024)
def ones(n: int, dtype: np.dtype) -> np.ndarray:
    """A cached vector of n ones. Do not write to it."""
    return np.ones(n, dtype)
