"""Cross entropy of logits and class indices, and its gradient, as kernels/cross_entropy.cu computes them."""

from __future__ import annotations

import numpy as np

from ..arrays.dtypes import wide
from ..arrays.loss_classes import Classes, CrossEntropySaved


def cross_entropy(x: np.ndarray, classes: Classes, reduction: str = "mean") -> tuple[np.ndarray, CrossEntropySaved]:
    """The cross entropy of softmax(x) (..., cols) and classes (...), and the values saved for the backward.

    A class out of range makes the loss NaN, and `counts` of its row. `reduction` "mean" divides the sum of the losses
    by the sum of the weights (NaN if all rows are ignored), "sum" does not divide, "none" returns a loss per row.
    """
    target, weight, ignore_index, smoothing = classes
    w, dtype, cols = x.astype(wide(x.dtype)), wide(x.dtype), x.shape[-1]
    weights = np.ones(cols, dtype) if weight is None else weight
    counted, place = target != ignore_index, np.clip(target, 0, max(cols - 1, 0))
    wrong = counted & (target != place)
    with np.errstate(invalid="ignore", divide="ignore"):
        highest = w.max(-1, keepdims=True, initial=-np.inf)
        log_sum = np.log(np.exp(w - np.where(highest == -np.inf, 0, highest)).sum(-1, keepdims=True))
        minus = highest - w + log_sum
        losses = (1 - smoothing) * weights[place] * np.take_along_axis(minus, place[..., None], -1)[..., 0]
        if smoothing:
            losses += smoothing / max(cols, 1) * (weights * minus).sum(-1)
        losses = np.where(wrong, np.nan, np.where(counted, losses, 0)).astype(dtype)
        divisor = np.where(counted, weights[place], 0).sum(dtype=dtype) if reduction == "mean" else dtype.type(1)
        out = np.asarray(losses if reduction == "none" else losses.sum() / divisor)
        factor = np.asarray(1 / divisor)
    counts = np.where(counted, (1 - smoothing) * weights[place] + smoothing * (weights.mean() if cols else 0), 0)
    counts = np.where(wrong, np.nan, counts)
    lse = highest + log_sum
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isfinite(lse), highest - lse + log_sum, 0)
    saved = CrossEntropySaved(lse[..., 0], rest[..., 0].astype(dtype), counts.astype(dtype), factor.astype(dtype))
    return out.astype(x.dtype), saved


def cross_entropy_backward(
    g: np.ndarray, x: np.ndarray, classes: Classes, saved: CrossEntropySaved
) -> np.ndarray:
    """The gradient of `cross_entropy` for x, given the gradient g of its result, () or one per row.

    NaN for a row whose class is out of range.
    """
    target, weight, ignore_index, smoothing = classes
    dtype, cols = wide(x.dtype), x.shape[-1]
    weights = np.ones(cols, dtype) if weight is None else weight
    place = np.clip(target, 0, max(cols - 1, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(target == ignore_index, 0, g.astype(dtype) * saved.factor)
        probs = np.exp(x.astype(dtype) - saved.lse[..., None] - saved.rest[..., None])
        named = (1 - smoothing) * weights[place][..., None] * (np.arange(cols) == place[..., None])
        dx = scale[..., None] * (saved.counts[..., None] * probs - named - smoothing / max(cols, 1) * weights)
    dx[(target != place) & (target != ignore_index)] = np.nan
    return dx.astype(x.dtype)
