"""Elements at indices along one dimension."""

from __future__ import annotations

import numpy as np


def gather(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """x[i][index[i][j]] for dim = -1, and so on."""
    return np.take_along_axis(x, index % x.shape[dim], dim)
