"""The NumPy side of the backend: products that use BLAS well, and views that NumPy makes slowly."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import pool
from .dtypes import bfloat16, float16, float32


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for arrays of at least two dimensions; half types accumulate in float32."""
    if a.dtype == bfloat16 or a.dtype == float16:
        return matmul(a.astype(float32), b.astype(float32)).astype(a.dtype)
    if a.ndim == 2 and b.ndim == 2:  # np.dot has half the call overhead of np.matmul, and makes the same BLAS call
        if a.shape[0] * b.shape[1] * a.itemsize < pool.SMALLEST:
            return np.dot(a, b)
        return np.dot(a, b, out=pool.empty((a.shape[0], b.shape[1]), a.dtype))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.matmul(a, b, out=pool.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype))


def special() -> Any:
    """scipy.special, imported at its first use: it would triple the package's import time."""
    import scipy.special

    return scipy.special
