"""The NumPy side of the backend: products that use BLAS well, and views that NumPy makes slowly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import counters, pool
from .blas import LARGEST, SMALLEST, on_one_thread
from .dtypes import FULL_FLOATS, HALF, float32

# Up to so many rows np.dot(w, x.T).T is faster than np.dot(x, w.T), for matrices w of so many elements. Measured with
# OpenBLAS' Haswell and AVX-512 kernels: 8 rows of 784 by 256 take 23 us instead of 29, or 39 instead of 88.
FEW_ROWS, MANY_ELEMENTS = 24, 1 << 16
# From so many elements on `where` works by bits.
LONG_MASK = 1 << 13


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for arrays of one dtype and at least two dimensions; half types accumulate in float32."""
    if a.ndim > 2 and b.ndim == 2:
        return matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if a.dtype in HALF:
        return matmul(a.astype(float32), b.astype(float32)).astype(a.dtype)
    if counters.ACTIVE:
        counters.matmul((*_batch(a, b), a.shape[-2], a.shape[-1], b.shape[-1]))
    work = a.shape[-2] * a.shape[-1] * b.shape[-1]
    product = _product if a.ndim == 2 and b.ndim == 2 else _products
    return on_one_thread(product, a, b) if SMALLEST < work <= LARGEST else product(a, b)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One product, by np.dot: half the call overhead of np.matmul, and the same BLAS call."""
    m, n = a.shape[0], b.shape[1]
    if m * n * a.itemsize >= pool.SMALLEST:
        return np.dot(a, b, out=pool.empty((m, n), a.dtype))
    if m <= FEW_ROWS and b.size >= MANY_ELEMENTS and b.flags.f_contiguous:
        return np.ascontiguousarray(np.dot(b.T, a.T).T)
    return np.dot(a, b)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A batch of products, broadcasting."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.matmul(a, b, out=pool.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype))


def _batch(a: np.ndarray, b: np.ndarray) -> tuple[int, ...]:
    """How many products: () for one of two matrices, else their number."""
    return () if a.ndim == b.ndim == 2 else (math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])),)


def where(mask: np.ndarray, a: Any, b: Any) -> np.ndarray:
    """np.where by bits: on a long random mask, where the processor cannot predict np.where's branch, up to 20 times as
    fast. Two's complement makes all ones of -1, so that -mask selects bits.
    """
    if mask.size < LONG_MASK or mask.dtype != bool:
        return np.where(mask, a, b)
    arrays = [x for x in (a, b) if isinstance(x, np.ndarray)]
    dtype: Any = arrays[0].dtype if arrays else None
    if dtype not in FULL_FLOATS or any(x.dtype is not dtype or x.shape not in ((), mask.shape) for x in arrays):
        return np.where(mask, a, b)
    bits = np.dtype(f"i{dtype.itemsize}")
    out = pool.empty(mask.shape, bits)
    out[...] = mask.view(np.int8)
    if _is_zero(a):
        out -= 1
        out &= b.view(bits)
        return out.view(dtype)
    np.negative(out, out=out)
    first, second = (np.asarray(x, dtype).view(bits) for x in (a, b))
    if _is_zero(b):
        out &= first
    else:
        out &= np.bitwise_xor(first, second, out=pool.empty(mask.shape, bits))
        out ^= second
    return out.view(dtype)


def _is_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) > 0


def special() -> Any:
    """scipy.special, imported at its first use: it would triple the package's import time."""
    import scipy.special

    return scipy.special
