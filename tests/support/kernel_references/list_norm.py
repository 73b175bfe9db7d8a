"""The norm of all elements of a list of arrays, and scaling to a maximum norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide


def list_norm(arrays: Sequence[np.ndarray], order: float = 2.0) -> np.ndarray:
    """The norm of all elements together, ()."""
    dtype = wide(arrays[0].dtype)
    flat = np.concatenate([array.reshape(-1) for array in arrays]).astype(dtype)
    return np.asarray(np.linalg.norm(flat, order) if flat.size else 0, dtype)


def limit_norm(array: np.ndarray, norm: float, max_norm: float) -> np.ndarray:
    """The new value of one array."""
    dtype = wide(array.dtype)
    factor = dtype.type(max_norm) / (dtype.type(norm) + dtype.type(1e-6))
    return array if factor >= 1 else (array.astype(dtype) * factor).astype(array.dtype)
