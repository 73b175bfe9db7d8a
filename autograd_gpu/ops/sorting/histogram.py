"""Counts of values: bincount and histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import backend, deterministic
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import LINEAR, LOOP, Tensor, defop, one_by_one, public
from .._support.unknown_derivative import unknown_rules


def _bincount(xp, x, weights=None, *, minlength=0):
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    try:
        if x.dtype not in dtypes.INTEGERS:
            raise ValueError("of the wrong dtype")
        if weights is None:
            return xp.bincount(x, minlength=minlength).astype(dtypes.int64, copy=False)
        sums = xp.bincount(x, weights.astype(dtypes.float64, copy=False), minlength)
    except ValueError as error:  # ValueError for a matrix or a negative number
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs; got shape {list(x.shape)} of "
                           f"{x.dtype}") from error
    return sums.astype(dtypes.float32 if weights.dtype == dtypes.float32 else dtypes.float64, copy=False)


def _bincount_cuda(xp, x, weights=None, *, minlength=0):
    if weights is not None:
        deterministic.alert("bincount with weights")
    return _bincount(xp, x, weights, minlength=minlength)


def _bincount_batch(F, n, batched, x, weights, *, minlength):
    if batched[0]:
        raise RuntimeError("bincount cannot be batched: how long the result is depends on the values; use scatter_add")
    return one_by_one(F, "bincount", lambda w: F.bincount(x, w, minlength), n, batched[1:], (weights,))


@defop
class bincount:
    """The number of occurrences of 0, 1, ... in a vector of integers; with `weights` the sums of their weights.

    The result has max(x) + 1 elements, or `minlength` if that is more. The sums are differentiable by the weights.

    >>> ag.bincount(ag.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """

    no_capture = "sizes"
    forward, cuda = _bincount, _bincount_cuda
    def grad_weights(F, g, x, weights_dtype): return F.cast(F.gather_along(g, x, -1), weights_dtype)
    integral = ("x",)
    jvp, batch = LINEAR, _bincount_batch
    takes_out = False
    public = methods = True


# ---- histograms ----------------------------------------------------------------------------------------


def _limits(name: str, x: Any, low: float, high: float, *, apart: float) -> tuple[float, float]:
    """The limits of the range: the arguments; if equal, those of the data; if also equal, plus and minus `apart`."""
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if not np.isfinite(low) or not np.isfinite(high):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min; got [{low}, {high}]")
    return (low - apart, high + apart) if low == high else (low, high)


def _bin_index(xp: Any, x: Any, bins: int, low: float, high: float) -> tuple[Any, Any]:
    """The bin of each element of the flat x, and which elements are in range; the last bin includes its upper end."""
    inside = (x >= low) & (x <= high)
    bin_index = backend.where(xp, inside, (x - low) / (high - low) * bins, 0).astype(dtypes.int64)
    return xp.minimum(bin_index, bins - 1), inside


def _bin_sums(xp: Any, bin_index: Any, inside: Any, weight: Any, bins: int) -> Any:
    """The sum of the weights (1 where None) of the elements of each bin."""
    weight = inside if weight is None else backend.where(xp, inside, weight, 0)
    return xp.bincount(bin_index, weight.astype(dtypes.float64), bins)


def _histc(xp, x, *, bins=100, min=0, max=0):
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f'"histc" not implemented for {x.dtype}; convert with .float() first')
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    x, dtype = x.reshape(-1), x.dtype
    x = x.astype(wide(dtype), copy=False)
    low, high = _limits("histc", x, min, max, apart=1)
    return _bin_sums(xp, *_bin_index(xp, x, bins, low, high), None, bins).astype(dtype)


@defop
class histc:
    """The number of elements of x in each of `bins` equal parts of [min, max], or of [x.min(), x.max()] if min == max.

    Elements outside of the range and NaN are not counted. Without a range it synchronizes a CUDA device.

    >>> ag.histc(ag.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """

    no_capture = "sizes"
    forward = _histc
    nondiff = True
    batch = LOOP
    public = methods = True


class histogram_result(NamedTuple):
    """The counts of the bins, and the edges, one more."""

    hist: Tensor
    bin_edges: Tensor


def _edges(xp: Any, x: Any, edges: Any, bins: int, range: Any) -> tuple[Any, int]:
    """The edges of the bins, and the number of bins."""
    if edges is not None:
        if edges.ndim != 1 or not edges.size:
            raise RuntimeError("histogramdd(): bins tensor should have one dimension and at least one edge; got shape "
                               f"{list(edges.shape)}")
        if edges.dtype != x.dtype:
            raise RuntimeError(f"histogram: bins and input must have one dtype, but got {edges.dtype} and {x.dtype}")
        return edges.astype(wide(x.dtype), copy=False), edges.size - 1
    if bins <= 0:
        raise RuntimeError(f"histogram(): bins must be > 0, but got {bins}")
    low, high = _limits("histogram", x, *(range or (0.0, 0.0 if x.size else 1.0)), apart=0.5)
    return xp.linspace(low, high, bins + 1).astype(wide(x.dtype)), bins


def _histogram(xp, x, edges=None, weight=None, *, bins=0, range=None, density=False):
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f'"histogram" not implemented for {x.dtype}; convert with .float() first')
    if weight is not None and (weight.shape != x.shape or weight.dtype != x.dtype):
        raise RuntimeError("histogramdd(): if weight tensor is provided it should have the same shape and dtype as the "
                           f"input; got {list(weight.shape)} of {weight.dtype}")
    array, dtype = x.reshape(-1).astype(wide(x.dtype), copy=False), x.dtype
    places, n = _edges(xp, x, edges, bins, range)
    if edges is not None:
        inside = (array >= places[0]) & (array <= places[-1])
        bin_index = xp.clip(xp.searchsorted(places, array, side="right") - 1, 0, max(n - 1, 0))
    else:
        bin_index, inside = _bin_index(xp, array, n, float(places[0]), float(places[-1]))
    hist = _bin_sums(xp, bin_index, inside, None if weight is None else weight.reshape(-1), n)[:n]
    if density:
        hist = hist / hist.sum() / xp.diff(places)
    return hist.astype(dtype), places.astype(dtype)


def _histogram_cuda(xp, x, edges=None, weight=None, **attributes):
    if weight is not None:
        deterministic.alert("histogram with weights")
    return _histogram(xp, x, edges, weight, **attributes)


@defop
class histogram_of:
    """(hist, bin_edges) of histogram: of `bins` equal parts of `range`, or between `edges`.

    >>> from autograd_gpu.ops.sorting.histogram import histogram_of
    >>> histogram_of(ag.tensor([1.0, 2.0, 1.0]), ag.tensor([0.0, 1.5, 3.0])).hist
    tensor([2., 1.])
    """

    no_capture = "sizes"
    forward, cuda = _histogram, _histogram_cuda
    outputs = ("hist", "bin_edges")
    grads, jvp = unknown_rules("histogram", "input, bins and weight")
    batch = LOOP


@public(methods=True, out=True)
def histogram(
    input: Tensor, bins: Any, *, range: tuple[float, float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """(hist, bin_edges): the counts of input between neighbouring edges; the last bin includes its upper edge.

    `bins` is a number of equal parts of `range` (by default from the smallest to the largest element), or a sorted
    vector of edges. `weight` has input's shape. With `density` the integral of hist is 1. Not differentiable.

    >>> ag.histogram(ag.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    edges, bins = (bins, 0) if isinstance(bins, Tensor) else (None, bins)
    return histogram_result(*histogram_of(input, edges, weight, bins, range, density))
