"""Quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...core.extend import Tensor, check_values, is_batched, other_words, public
from ..creation.from_data import as_tensor
from ..elementwise.arithmetic import lerp, where
from ..elementwise.clamp import clamp
from ..elementwise.comparison import isnan, logical_not
from ..elementwise.rounding import ceil, floor, round
from ..indexing.basic_index import narrow
from ..indexing.gather import gather_along
from ..reduction.sum import sum
from ..shape.permute import movedim
from ..shape.reshape import ravel, reshape, squeeze
from .order_statistics import at_ranks
from .sort import sort

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _as_q(name: str, x: Tensor, q: Any) -> Tensor:
    """q as a tensor of x's dtype, on the CPU for a number; after PyTorch's checks."""
    if x.dtype not in dtypes.FULL_FLOATS:
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype; got {x.dtype}")
    if not x.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return as_tensor(q, dtype=x.dtype, device="cpu")
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype != x.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor; got {q.dtype} and {x.dtype}")
    check_values(q, lambda values: _check_ranks(name, values))
    return q


def _check_ranks(name: str, q: Any) -> None:
    if backend.seen_outside(q, 0, 1):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


def _neighbours(ranks: Any, interpolation: str) -> tuple[Any, Any, Any]:
    """The integer ranks below and above, and the weight of the latter: a number, or None for linear interpolation."""
    if interpolation == "nearest":
        return round(ranks), None, 0.0
    if interpolation == "higher":
        return ceil(ranks), None, 0.0
    below = floor(ranks)
    return (below, None, 0.0) if interpolation == "lower" else (below, ceil(ranks), ranks - below)


def _by_partition(x: Tensor, q: Tensor, interpolation: str) -> Tensor:
    """Quantiles along the last dimension by partial sorting."""
    n = x.shape[-1]
    ranks = q * (n - 1)
    below, above, share = _neighbours(ranks, interpolation)
    groups = [t.array.astype(np.int64).tolist() for t in (below, above) if t is not None]
    values = at_ranks(x, (*(rank for group in groups for rank in group), n - 1)).values
    count = q.shape[0]
    result, last = narrow(values, -1, 0, count), narrow(values, -1, values.shape[-1] - 1, 1)
    if above is not None:
        weight = 0.5 if interpolation == "midpoint" else share.to(x.device)
        result = lerp(result, narrow(values, -1, count, count), weight)
    return where(isnan(last), last, result)  # the last one is NaN if any is


def _by_sorting(x: Tensor, q: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """Quantiles along the last dimension by sorting, for ranks that depend on the data or are on the device."""
    ordered = sort(x).values
    n = x.shape[-1]
    if ignore_nan:
        ranks = clamp(q.to(x.device) * (sum(logical_not(isnan(ordered)), -1, True) - 1), 0.0)
    else:
        ranks = where(isnan(narrow(ordered, -1, n - 1, 1)), float(n - 1), q * (n - 1))
    below, above, share = _neighbours(ranks, interpolation)
    low = gather_along(ordered, below.long(), -1)
    if above is None:
        return low
    return lerp(low, gather_along(ordered, above.long(), -1), 0.5 if interpolation == "midpoint" else share)


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:  # fmt: skip
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                           f"{interpolation}")
    q, shape = _as_q(name, x, q), x.shape
    x = ravel(x) if dim is None or not shape else movedim(x, dim, -1)
    flat = reshape(q, (-1,))
    sorting = ignore_nan or q.is_cuda or is_batched(q)
    result = _by_sorting(x, flat, interpolation, ignore_nan) if sorting else _by_partition(x, flat, interpolation)
    result = movedim(result, -1, 0)  # (q, remaining dimensions)
    if keepdim and shape:
        kept = [1] * len(shape) if dim is None else [*shape[: dim % len(shape)], 1, *shape[dim % len(shape) + 1 :]]
        result = reshape(result, (-1, *kept))
    return result if q.ndim else squeeze(result, 0)


@public(methods=True, out=True)
@other_words
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:  # fmt: skip
    """The q-th quantiles of input along `dim`, or of all elements; q in [0, 1], a number or a vector of input's dtype.

    A vector q adds a leading dimension. `interpolation` between two elements is linear, lower, higher, midpoint or
    nearest. NaN propagates.

    >>> ag.quantile(ag.tensor([0.0, 1.0, 2.0, 3.0]), ag.tensor([0.25, 0.5]))
    tensor([0.75, 1.5 ])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public(methods=True, out=True)
@other_words
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:  # fmt: skip
    """The q-th quantiles ignoring NaN, see ag.quantile; NaN if all elements are NaN.

    >>> ag.nanquantile(ag.tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)

