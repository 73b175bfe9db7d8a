"""Products of a float32 matrix of few rows and a large one, for which OpenBLAS computes the transpose faster.

OpenBLAS packs the large operand anew for each product, and its AVX2 kernels up to 0.3.30 do so faster where it is the
left one. Measured with them (NumPy 2.1 to 2.4), b.T @ a.T and the copy that transposes the result take of the time of
a @ b, for a (m, 784) and b (784, 256): of the layout of a transposed weight 0.43 at m = 8, 0.70 at 32, 0.86 at 64, and
0.99 at 128; of a weight's own 0.71 at m = 8, 0.91 at 32, and 1.0 at 64. For float64 they take 1.0 to 1.6. Of 0.3.34
(NumPy 2.5), and of the AVX-512 kernels, only few rows and large transposed weights gain: 0.77, and 0.44 to 0.8, at 8.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from ..arrays.dtypes import float32
from . import blas

MOST = 64  # rows of a, at most


class Bounds:
    """How many rows count as few, and how many elements b has at least, by its layout."""

    def __init__(self, kernels: str | None, version: str | None) -> None:
        numbers = tuple([int(number) for number in re.findall(r"\d+", version or "")[:3]])
        wide = kernels in ("Haswell", "Zen") and numbers <= (0, 3, 30)
        self.transposed = [(1 << 16, 64), (1 << 14, 32)] if wide else [(1 << 16, 24)]  # (elements, rows)
        self.plain = [(1 << 14, 32)] if wide else []


@functools.cache
def bounds() -> Bounds:
    """Those of NumPy's BLAS here."""
    return Bounds(blas.kernels(), blas.version())


def are_few(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a @ b is computed as its transpose; a row alone has BLAS' kernels for vectors."""
    m = a.shape[0]
    if not 1 < m <= MOST or m >= b.shape[1] or b.size < 1 << 14 or a.dtype is not float32:
        return False
    size, (row, column) = b.itemsize, b.strides
    limits = bounds().transposed if row == size else bounds().plain if column == size else []
    for elements, rows in limits:  # noqa: SIM110 (`any` takes five times as long)
        if b.size >= elements and m <= rows:
            return True
    return False


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write a @ b into `out`."""
    out[...] = b.T.dot(a.T).T
