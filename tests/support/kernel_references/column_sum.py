"""Column sums of a matrix."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide


def column_sum(x: np.ndarray) -> np.ndarray:
    """The sum of x (..., cols) over all dimensions but the last: (cols,)."""
    return x.sum(axis=tuple(range(x.ndim - 1)), dtype=wide(x.dtype)).astype(x.dtype)
