"""Cumulative sums and products of NumPy arrays; float32 is accumulated in float64, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.dtypes import float32, float64
from . import pool

FEW = 128  # terms up to which float32 is exact enough
CHUNK = 1 << 14  # elements converted to float64 at a time: 128 KiB


def accumulate(ufunc: Any, x: np.ndarray, axis: int) -> np.ndarray:
    """ufunc.accumulate(x, axis) in the dtype of x; each float32 element is rounded once."""
    if x.dtype != float32 or x.shape[axis] <= FEW:
        return ufunc.accumulate(x, axis)
    if x.size <= CHUNK:
        return ufunc.accumulate(x, axis, float64).astype(float32)
    out = pool.empty(x.shape, float32)
    _by_chunks(ufunc, np.moveaxis(x, axis, -1), np.moveaxis(out, axis, -1))
    return out


def _by_chunks(ufunc: Any, x: np.ndarray, out: np.ndarray) -> None:
    """Accumulates along the last dimension into `out`, dividing the other dimensions first."""
    *others, n = x.shape
    step = max(CHUNK * max(others, default=1) // x.size, 1)
    if x.size > CHUNK and x.size > n:
        dim = others.index(max(others))
        for i in range(0, others[dim], step):
            part = (*[slice(None)] * dim, slice(i, i + step))
            _by_chunks(ufunc, x[part], out[part])
        return
    carry: Any = None
    for i in range(0, n, CHUNK):
        wide = x[..., i : i + CHUNK].astype(float64, order="C")
        if i:
            wide[..., 0] = ufunc(carry, wide[..., 0])
        ufunc.accumulate(wide, -1, out=wide)
        out[..., i : i + CHUNK] = wide
        carry = wide[..., -1]
