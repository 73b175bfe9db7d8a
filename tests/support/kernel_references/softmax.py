"""Softmax and log-softmax along the last dimension, and their gradients."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide


def softmax(x: np.ndarray, logarithm: bool = False, safe: bool = False) -> np.ndarray:
    """Softmax over the last dimension, or its logarithm; a row of -inf only is NaN, or zeros if `safe`."""
    w = x.astype(wide(x.dtype))
    highest = w.max(-1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        e = np.exp(w - np.where(safe & (highest == -np.inf), 0, highest))
        total = e.sum(-1, keepdims=True)
        result = w - highest - np.log(total) if logarithm else e / np.where(safe & (total == 0), 1, total)
    return result.astype(x.dtype)


def softmax_backward(g: np.ndarray, out: np.ndarray, logarithm: bool = False) -> np.ndarray:
    """The gradient of `softmax` for x, given the gradient g of its result `out`."""
    h, result = g.astype(wide(g.dtype)), out.astype(wide(out.dtype))
    if logarithm:
        return (h - np.exp(result) * h.sum(-1, keepdims=True)).astype(out.dtype)
    return (result * (h - (h * result).sum(-1, keepdims=True))).astype(out.dtype)
