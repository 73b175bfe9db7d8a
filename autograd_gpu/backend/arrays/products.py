"""Matrix products of NumPy and CuPy arrays; the profiler counts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import counters
from ..cpu import matmul as cpu_matmul
from ..cuda import cublas
from .dtypes import FLOATS
from .strides import may_share_memory


def matmul(a: Any, b: Any) -> Any:
    """a @ b for arrays of at least two dimensions: (..., m, k) @ (..., k, n) -> (..., m, n), broadcasting batches.

    The result has the promoted dtype. If all matrices of one operand's batch are the same, the other operand's batch
    is folded into its rows: one product instead of one per matrix.
    """
    tiny = type(a) is np.ndarray and a.ndim == 2 == b.ndim and a.size * b.shape[1] < cpu_matmul.TINY
    if tiny and a.dtype is b.dtype and a.itemsize > 2:
        if counters.ACTIVE:
            counters.matmul((*a.shape, b.shape[1]))
        return a.dot(b)
    if a.dtype is not b.dtype:  # a float32 gradient of a half-precision product
        common = np.promote_types(a.dtype, b.dtype)
        a, b = a.astype(common, copy=False), b.astype(common, copy=False)
    return cpu_matmul.matmul(a, b) if type(a) is np.ndarray else cublas.matmul(a, b)


def dot(a: Any, b: Any) -> Any:
    """a @ b for a vector or matrix a and a vector b of the same dtype: (k,) @ (k,) -> (), (m, k) @ (k,) -> (m,)."""
    if type(a) is np.ndarray and a.itemsize > 2 and a.size < cpu_matmul.TINY:
        if counters.ACTIVE:
            counters.matmul((*a.shape, 1) if a.ndim > 1 else (1, *a.shape, 1))
        return a.dot(b)
    out = matmul(a if a.ndim > 1 else a[None], b[:, None])[..., 0]
    return out if a.ndim > 1 else out[0]


def add_matmul(into: Any, a: Any, b: Any) -> None:
    """into += a @ b for matrices, in place.

    On CUDA cuBLAS adds in one launch, without an array for the product, unless `into` may share memory with a or b.
    """
    alike = type(into) is not np.ndarray and into.dtype == a.dtype == b.dtype and into.dtype in FLOATS
    if alike and into.flags.c_contiguous and not (may_share_memory(into, a) or may_share_memory(into, b)):
        cublas.gemm(a, b, into, accumulate=True)
    else:
        into += matmul(a, b).astype(into.dtype, copy=False)
