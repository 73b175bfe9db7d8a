"""Layer norm over the last dimension, RMS norm with centered=False, and their gradients."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide

from .column_sum import column_sum


def layer_norm(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, eps: float = 1e-5,
    centered: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """(x - mean) * rstd * weight + bias, mean and rstd; the mean of an RMS norm is zeros."""
    wider, n = x.astype(wide(x.dtype)), max(x.shape[-1], 1)
    mean = wider.sum(-1, keepdims=True) / n if centered else np.zeros((*x.shape[:-1], 1), wider.dtype)
    rstd = (1 / np.sqrt(((wider - mean) ** 2).sum(-1, keepdims=True) / n + eps)).astype(wider.dtype)
    out = (wider - mean) * rstd
    out = out if weight is None else out * weight.astype(wider.dtype)
    out = out if bias is None else out + bias.astype(wider.dtype)
    return out.astype(x.dtype), mean, rstd


def layer_norm_backward(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, centered: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of `layer_norm` for x, weight and bias, given the gradient g of its result."""
    wider = g.astype(wide(g.dtype))
    normal = (x.astype(wider.dtype) - mean) * rstd
    h = wider if weight is None else wider * weight.astype(wider.dtype)
    n = max(x.shape[-1], 1)
    dx = h - normal * ((h * normal).sum(-1, keepdims=True) / n)
    dx = rstd * (dx - h.sum(-1, keepdims=True) / n if centered else dx)
    dweight, dbias = column_sum(wider * normal), column_sum(wider)
    return dx.astype(x.dtype), dweight.astype(x.dtype), dbias.astype(x.dtype)
