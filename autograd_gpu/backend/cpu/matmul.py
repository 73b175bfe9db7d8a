"""Matrix products of NumPy arrays: by the calling thread or blocks on ours, in pooled memory, with exact long sums."""

from __future__ import annotations

import math

import numpy as np

from .. import counters
from ..arrays.dtypes import HALF, float32, float64, int64
from . import few_rows, large_products, pool, sums
from .blas import SMALL_PRODUCT, SMALL_VECTOR, on_one_thread, readable
from .half import convert

TINY = 1 << 13  # multiply-adds, and elements of an operand, up to which a plain product is fastest
MANY_ELEMENTS = 1 << 16  # of both operands, from which on a batch may be cut into blocks
# A product with k >= MANY_TERMS and at most FEW_RESULTS elements is summed by blocks of terms: of SHORT terms for up to
# FEW_IN_SHORT elements, else of LONG terms, since the sums of short blocks would take more memory than the operands.
# Measured with OpenBLAS' AVX-512 kernels: 10^5 terms for 16 x 16 results take 0.65 ms instead of 1.02.
MANY_TERMS, FEW_RESULTS = 1 << 13, 1 << 8
SHORT, LONG, FEW_IN_SHORT = 64, 256, 64


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for arrays of the same dtype and at least two dimensions; half types are accumulated in float32."""
    if a.ndim > 2 and b.ndim == 2:
        return matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if a.dtype in HALF:
        return convert(matmul(widened(a), widened(b)), a.dtype)
    if counters.ACTIVE:
        counters.matmul((*_batch(a, b), a.shape[-2], a.shape[-1], b.shape[-1]))
    m, terms, n = a.shape[-2], a.shape[-1], b.shape[-1]
    work, product = m * terms * n, _product if a.ndim == 2 and b.ndim == 2 else _products
    if work <= TINY:
        return product(a, b)
    if a.dtype.kind in "iu" and _is_exact(a, b):
        exact = matmul(a.astype(float64), b.astype(float64)).astype(int64)
        return exact.astype(a.dtype, copy=False)  # wraps around, which a conversion of float64 does not
    if terms >= MANY_TERMS and 1 < m * n <= FEW_RESULTS:  # BLAS sums a dot product in many SIMD lanes
        return on_one_thread(_of_blocks, readable(a), readable(b))
    if work <= (SMALL_VECTOR if m == 1 or n == 1 else SMALL_PRODUCT):  # BLAS has its kernels for vectors
        return product(a, b)
    if product is _product and (step := large_products.step_of(a, b, work)):
        return large_products.in_blocks(a, b, step)
    return on_one_thread(product, a, b)


def widened(a: np.ndarray) -> np.ndarray:
    """An array of a half type in float32 and in its own memory order, that of a transposed view included."""
    is_turned = a.ndim == 2 and a.flags.f_contiguous and not a.flags.c_contiguous
    return convert(a.T, float32).T if is_turned else convert(a, float32)


def _is_exact(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether float64 holds all sums of the product of two integer arrays, for which BLAS takes a twentieth."""
    largest = [max(-int(x.min()), int(x.max())) for x in (a, b)]
    return largest[0] * largest[1] * a.shape[-1] < 1 << 53


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two matrices by the method `dot`, which has half the call overhead of np.matmul."""
    m, n = a.shape[0], b.shape[1]
    if m <= few_rows.MOST and few_rows.are_few(a, b):
        few_rows.product(a, b, out := pool.empty((m, n), a.dtype))
        return out
    if m * n * a.itemsize >= pool.SMALLEST:
        return a.dot(b, pool.empty((m, n), a.dtype))
    return a.dot(b)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A batch of products, broadcasting batch dimensions."""
    if a.size * b.shape[-1] < TINY and b.size < TINY:
        return np.matmul(a, b)
    if a.size + b.size >= MANY_ELEMENTS:  # fewer make no large product; the question takes 0.5 us
        work = max(a.size * b.shape[-1], b.size * a.shape[-2])
        if step := large_products.step_of(a, b, work):
            return large_products.in_blocks(a, b, step)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = pool.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    return np.matmul(readable(a), readable(b), out=out)


def _of_blocks(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b with the sums over k divided into blocks, which are summed pairwise.

    BLAS accumulates a small result sequentially: a sum of 10^6 float32 terms of one sign has a relative error of 3e-3.
    """
    *lead, m, terms = a.shape
    size = SHORT if m * b.shape[-1] <= FEW_IN_SHORT else LONG
    count, rest = divmod(terms, size)
    whole = terms - rest
    left = a[..., :whole].reshape(*lead, m, count, size).swapaxes(-3, -2)
    right = b[..., :whole, :].reshape(*b.shape[:-2], count, size, b.shape[-1])
    parts = np.matmul(left, right)
    if rest:
        last = np.matmul(a[..., whole:], b[..., whole:, :])
        parts = np.concatenate([parts, last[..., None, :, :]], -3)
    return sums.total(parts, parts.ndim - 3)


def _batch(a: np.ndarray, b: np.ndarray) -> tuple[int, ...]:
    """() for one product, else the number of products as a tuple of one int."""
    return () if a.ndim == b.ndim == 2 else (math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])),)
