"""Row sums of a matrix."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide


def row_sum(x: np.ndarray) -> np.ndarray:
    """The sum of x (..., cols) over its last dimension: (...)."""
    return x.sum(axis=-1, dtype=wide(x.dtype)).astype(x.dtype)
