"""Batching rules of losses of class scores and classes: each sample has its own mean and weights.

The ops of ops/nn/cross_entropy.py compute the losses of the rows; the functions here reduce them for each sample.
"""

from __future__ import annotations

import math

from ...backend.arrays.dtypes import wide
from ...core.extend import expanded, rank


def _over_rows(F, x):
    """The sum for each sample."""
    dims = tuple(range(1, len(x.shape)))
    return F.sum(x, dims, True) if dims else x


def _row_factors(F, n, target, weight, ignore_index, reduction, dtype):
    """The factors of the losses of the rows, and the sum of the rows' weights for each sample if the mean is wanted.

    The sum keeps all dimensions.

    `weight` is a pair: the weights, and whether they are batched.
    """
    counts = F.ne(target, ignore_index)
    if weight[0] is None:
        scale = F.cast(counts, dtype)
    else:
        valid_target = F.where(counts, target, 0)
        if weight[1]:
            flat = F.reshape(valid_target, (n, math.prod(target.shape[1:])))
            weights = F.reshape(F.gather_along(weight[0], flat, -1), target.shape)
        else:
            weights = F.advanced_index(weight[0], valid_target, dims=(-1,))
        scale = F.where(counts, weights if weights.dtype == dtype else F.cast(weights, dtype), 0.0)
    if reduction != "mean":
        return scale, None
    total = _over_rows(F, scale)
    return scale / F.where(total == 0, 1.0, total), total


def _losses(F, n, losses, scale, total, reduction, dtype):
    """The losses of the samples, from the unweighted losses of the rows and their factors."""
    rows = losses * scale
    if reduction != "none":
        rows = _over_rows(F, rows)
        rows = F.reshape(rows if total is None else F.where(total == 0, math.nan, rows), (n,))
    return rows if rows.dtype == dtype else F.cast(rows, dtype)


def _inverse(F, n, total):
    """The factor of the mean of each sample; inf where no row counts."""
    return F.reshape(F.where(total == 0, math.inf, 1.0 / F.where(total == 0, 1.0, total)), (n,))


def combined(F, n, target, losses, weight, ignore_index, reduction, dtype):
    """The losses of the samples, from the weighted losses of the rows, and their factors; weights are not batched."""
    rows = _over_rows(F, losses)
    if reduction == "mean":
        _, total = _row_factors(F, n, target, (weight, False), ignore_index, reduction, losses.dtype)
        rows = F.where(total == 0, math.nan, rows / F.where(total == 0, 1.0, total))
        factor = _inverse(F, n, total)
    else:
        factor = F.constant_like(F.reshape(rows, (n,)), 1.0)
    rows = F.reshape(rows, (n,))
    return rows if rows.dtype == dtype else F.cast(rows, dtype), factor


def _widened(F, x):
    return x if wide(x.dtype) == x.dtype else F.cast(x, wide(x.dtype))


def batch_cross_entropy(F, n, batched, x, target, weight, *, ignore_index, reduction):
    x, target = expanded(F, n, batched[:2], (x, target))
    how = {"ignore_index": ignore_index, "reduction": "none"}
    if reduction == "none" and not batched[2]:
        return F.keeping_saved("class_cross_entropy", (x, target, weight), how)
    losses, probs = F.class_cross_entropy(_widened(F, x), target, None, **how)
    scale, total = _row_factors(F, n, target, (weight, batched[2]), ignore_index, reduction, losses.dtype)
    loss = _losses(F, n, losses, scale, total, reduction, x.dtype)
    return (loss, probs if probs.dtype == x.dtype else F.cast(probs, x.dtype)), {"scale": scale}


def of_rows(F, n, x, is_batched, rows):
    """One number per row or per sample, expanded to one per row (n, *rows)."""
    x = F.reshape(x, (n, *(1,) * len(rows))) if is_batched and not rank(x, True) else x
    return F.expand(x, (n, *rows))


def batch_cross_entropy_grad(F, n, batched, h, probs, target, scale):
    probs, target = expanded(F, n, batched[1:3], (probs, target))
    h, scale = [of_rows(F, n, x, own, target.shape[1:]) for x, own in ((h, batched[0]), (scale, batched[3]))]
    return F.cross_entropy_grad(h, probs, target, scale)


def batch_nll(F, n, batched, x, target, weight, *, ignore_index, reduction):
    x, target = expanded(F, n, batched[:2], (x, target))
    how = {"ignore_index": ignore_index, "reduction": "none"}
    if reduction == "none" and not batched[2]:
        return F.keeping_saved("class_nll", (x, target, weight), how)
    losses = F.class_nll(_widened(F, x), target, None, **how)
    scale, total = _row_factors(F, n, target, (weight, batched[2]), ignore_index, reduction, losses.dtype)
    factor = None if total is None else _inverse(F, n, total)
    return _losses(F, n, losses, scale, total, reduction, x.dtype), {"factor": factor}


def batch_nll_grad(F, n, batched, h, target, weight, factor, *, classes, ignore_index, reduction):
    """Computed by rows: each row has h, factor and weights of its sample."""
    dtype, target = h.dtype, expanded(F, n, batched[1:2], (target,))[0]
    scale, _ = _row_factors(F, n, target, (weight, batched[2]), ignore_index, "sum", wide(dtype))
    rows = of_rows(F, n, h, batched[0], target.shape[1:]) * scale
    if factor is not None:  # inf where no row counts
        rows = F.where(scale == 0, 0.0, rows * of_rows(F, n, factor, batched[3], target.shape[1:]))
    grad = F.class_nll_grad(rows, target, None, None, classes=classes, ignore_index=ignore_index, reduction="none")
    return grad if grad.dtype == dtype else F.cast(grad, dtype)
