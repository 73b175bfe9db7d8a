"""Negative log-likelihood of class indices, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.kernels import Classes


def nll(x: np.ndarray, classes: Classes, reduction: str = "mean") -> tuple[np.ndarray, np.ndarray]:
    """The weighted and reduced -x[..., class], and the factor of the gradients of the rows' losses."""
    own, place, wrong = _weights(classes, x.shape[-1], wide(x.dtype))
    picked = np.take_along_axis(x.astype(own.dtype), place[..., None], -1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        rows: Any = np.where(classes.target == classes.ignore_index, 0, np.where(wrong, np.nan, -own * picked))
        divisor = own.sum() if reduction == "mean" else own.dtype.type(1)
        total = rows if reduction == "none" else rows.sum() / divisor
        return np.asarray(total).astype(x.dtype), np.asarray(1 / divisor)


def nll_backward(g: np.ndarray, classes: Classes, cols: int, factor: np.ndarray | None = None) -> np.ndarray:
    """The gradient of `nll` for x (..., cols), given the gradient g of its result, () or one per row."""
    own, place, wrong = _weights(classes, cols, wide(g.dtype))
    ignored = classes.target == classes.ignore_index
    with np.errstate(invalid="ignore"):
        rows = np.where(ignored, 0, -own * g.astype(own.dtype) * (1 if factor is None else factor))
    dx = np.where(np.arange(cols) == place[..., None], rows[..., None], 0)
    return np.where(wrong[..., None], np.nan, dx).astype(g.dtype)


def _weights(classes: Classes, cols: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights of the rows, the classes clipped to the range, and a mask of classes out of range."""
    place = np.clip(classes.target, 0, max(cols - 1, 0))
    own = np.ones(place.shape, dtype) if classes.weight is None else classes.weight[place]
    ignored = classes.target == classes.ignore_index
    return np.where(ignored, 0, own).astype(dtype), place, ~ignored & (place != classes.target)
