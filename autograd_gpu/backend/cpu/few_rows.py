"""Products of a float32 matrix of few rows and a large one, for which OpenBLAS computes the transpose faster.

OpenBLAS packs the large operand anew for each product, and its AVX2 kernels do so faster where it is the left one.
Measured with them, b.T @ a.T and the copy that transposes the result take of the time of a @ b, for a (m, 784) and b
(784, 256): of the layout of a transposed weight 0.43 at m = 8, 0.70 at 32, 0.86 at 64, and 0.99 at 128; of a weight's
own 0.71 at m = 8, 0.91 at 32, and 1.0 at 64. For float64 they take 1.0 to 1.6. The AVX-512 kernels were measured with
m <= 24 and large transposed weights only: 0.44 and 0.8 at m = 8.
"""

from __future__ import annotations

import functools

import numpy as np

from ..arrays.dtypes import float32
from . import blas

MOST = 64  # rows of a, at most


class Bounds:
    """How many rows count as few, and how many elements b has at least, by its layout."""

    def __init__(self, kernels: str | None) -> None:
        avx2 = kernels in ("Haswell", "Zen")
        self.transposed = [(1 << 16, 64), (1 << 14, 32)] if avx2 else [(1 << 16, 24)]  # (elements, rows)
        self.plain = [(1 << 14, 32)] if avx2 else []


@functools.cache
def bounds() -> Bounds:
    """Those of NumPy's BLAS here."""
    return Bounds(blas.kernels())


def are_few(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a @ b is computed as its transpose; a row alone has BLAS' kernels for vectors."""
    m = a.shape[0]
    if not 1 < m <= MOST or m >= b.shape[1] or b.size < 1 << 14 or a.dtype is not float32:
        return False
    size, (row, column) = b.itemsize, b.strides
    limits = bounds().transposed if row == size else bounds().plain if column == size else []
    return any(b.size >= elements and m <= rows for elements, rows in limits)


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write a @ b into `out`."""
    np.copyto(out, np.dot(b.T, a.T).T)
