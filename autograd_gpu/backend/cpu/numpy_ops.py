"""The NumPy side of the backend: selections, signs and small sums that are faster than NumPy's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..arrays.dtypes import FLOATS, HALF, float32, float64
from . import pool

MANY_CHOICES = 1 << 13  # elements of a mask from which on `where` is faster than np.where on an unforeseeable one

# Any: mypy finds no overload for these in the stubs of NumPy 2.5, nor in older ones for `keepdims` by position.
add_reduce: Any = np.add.reduce
min_reduce: Any = np.minimum.reduce
max_reduce: Any = np.maximum.reduce

def where(mask: np.ndarray, a: Any, b: Any) -> np.ndarray:
    """np.where(mask, a, b) in a dozen integer operations per element, none of them a branch: b ^ (mask * (a ^ b)).

    np.where takes ten to fifty times as long on a random mask of many elements, where the processor guesses its
    branch wrong. Bits are copied, so NaN, infinities and -0.0 are what they were.
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
    """np.sign, but 0 for NaN, as CuPy and PyTorch have it."""
    found, dtype = np.sign(x, out), x.dtype
    if dtype is float32 or dtype is float64:  # a number made of all that is found tells whether there is any
        few = x.size <= MANY
        made = sum(found.ravel().tolist()) if few else min_reduce(found, None)
        if made == made:
            return found
    elif dtype not in HALF:
        return found
    found = np.asarray(found)
    np.copyto(found, 0, where=np.isnan(found), casting="unsafe")
    return found


@functools.cache
def special() -> Any:
    """scipy.special, imported at its first use: it would triple the package's import time."""
    import scipy.special

    return scipy.special


# Up to so many elements a product with ones sums in half the time that np.add.reduce takes: 0.4 us for a 2x2 matrix.
FEW = 256
MANY = 16  # numbers from which on NumPy finds the least and the largest, or a sum, faster than Python


def ends(array: np.ndarray) -> tuple[Any, Any]:
    """The least and the largest of some integers; of a dozen, Python finds them faster."""
    if array.size < MANY:
        numbers = array.ravel().tolist()
        return min(numbers), max(numbers)
    return array.min(), array.max()


@functools.lru_cache(1024)
def constant(value: float, dtype: np.dtype) -> np.ndarray:
    """`value` as a 0-d array, which a ufunc takes in half the time that a Python number takes; never write to it."""
    return np.asarray(value, dtype)


@functools.lru_cache(1024)
def constants(dtype: np.dtype, *values: float) -> tuple[np.ndarray, ...]:
    """Several of them, at the price of one."""
    return tuple([constant(value, dtype) for value in values])


@functools.lru_cache(1024)
def ones(n: int, dtype: np.dtype) -> np.ndarray:
    return np.ones(n, dtype)
