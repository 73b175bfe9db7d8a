"""Unique elements. No derivatives. The size of the result depends on the data, so that CUDA synchronizes.
"""

from __future__ import annotations

import math
from typing import Any

from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...core.extend import Tensor, defop, impossible, other_words, public, refuse_batched
from .._support.unknown_derivative import unknown_rules
from ..indexing.basic_index import wrap_dim

SIZE = "how many different elements there are depends on the values"


def _in_front(xp, x, dim):
    """x with `dim` as the first dimension; flattened without `dim`."""
    return x.reshape(-1) if dim is None or not x.ndim else xp.moveaxis(x, wrap_dim(dim, x.ndim), 0)


def _begins(xp, y):
    """A mask of the slices along the first dimension that differ from the slice before."""
    begins = xp.ones(y.shape[:1], bool)
    changed = y[1:] != y[:-1]
    begins[1:] = changed if y.ndim == 1 else changed.any(axis=tuple(range(1, y.ndim)))
    return begins


def _runs(xp, x, y, order, dim):
    """For the runs of equal slices in y[order]: the first of each run, the run of each slice, the lengths."""
    begins = _begins(xp, y if order is None else y[order])
    starts = xp.nonzero(begins)[0]
    run = xp.cumsum(begins) - 1
    inverse = run
    if order is not None:
        inverse = xp.empty_like(run)
        inverse[order] = run
    counts = xp.diff(xp.concatenate([starts, xp.asarray([len(y)], dtype=starts.dtype)]))
    values = y[starts if order is None else order[starts]]
    if dim is not None and x.ndim:
        values = xp.moveaxis(values, 0, dim)
    elif dim is None:
        inverse = inverse.reshape(x.shape)
    return values, inverse.astype(dtypes.int64, copy=False), counts.astype(dtypes.int64, copy=False)


def _sorted(xp, x, *, dim=None):
    y = _in_front(xp, x, dim)
    comparable = y.astype(wide(y.dtype), copy=False)
    if y.ndim == 1:
        order = comparable.argsort()
    else:  # by the first element of each slice, then by the second, ...
        keys = comparable.reshape(y.shape[0], math.prod(y.shape[1:])).T[::-1]
        order = xp.lexsort(keys) if keys.size else xp.zeros(min(len(y), 1), dtypes.int64)
    return _runs(xp, x, y, order, dim)


@defop
class unique_all:
    """(values, inverse, counts): the unique slices along `dim`, sorted, the index of each slice among them, the counts.

    >>> from autograd_gpu.ops.sorting.unique import unique_all
    >>> unique_all(ag.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """

    no_capture = "sizes"
    forward = _sorted
    grads, jvp = unknown_rules("unique", "input")
    outputs, nondiff_outputs = ("values", "inverse", "counts"), ("inverse", "counts")
    batch = impossible(SIZE)


@defop
class unique_values:
    """The unique elements of x, sorted.

    >>> ag.unique(ag.tensor([3, 1, 3]))
    tensor([1, 3])
    """

    no_capture = "sizes"
    def forward(xp, x): return xp.unique(x.astype(wide(x.dtype), copy=False), equal_nan=False).astype(x.dtype)
    grads, jvp = unknown_rules("unique", "input")
    batch = impossible(SIZE)
    torch = "unique"


@defop
class unique_runs:
    """(values, inverse, counts): one slice per run of equal slices along `dim`, the run of each slice, the lengths.

    >>> ag.unique_consecutive(ag.tensor([3, 3, 1, 3]))
    tensor([3, 1, 3])
    """

    no_capture = "sizes"
    def forward(xp, x, *, dim=None): return _runs(xp, x, _in_front(xp, x, dim), None, dim)
    grads, jvp = unknown_rules("unique_consecutive", "input")
    outputs, nondiff_outputs = ("values", "inverse", "counts"), ("inverse", "counts")
    batch = impossible(SIZE)


def _chosen(result: Any, return_inverse: bool, return_counts: bool) -> Any:
    parts = (result.values, *([result.inverse] if return_inverse else ()), *([result.counts] if return_counts else ()))
    return parts if len(parts) > 1 else parts[0]


@public(methods=True)
@other_words
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The unique elements of input, or with `dim` its unique slices; always sorted, also if not `sorted`.

    With return_inverse also the index of each element among them, with return_counts also the counts. NaNs are all
    different.

    >>> ag.unique(ag.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    refuse_batched("unique", input, "use ag.sort")
    if dim is not None and 0 in input.shape:
        others = [n for d, n in enumerate(input.shape) if d != wrap_dim(dim, input.ndim)]
        if 0 in others:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    if dim is None and not return_inverse and not return_counts:
        return unique_values(input)
    return _chosen(unique_all(input, dim), return_inverse, return_counts)


@public(methods=True)
@other_words
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """input without elements, or with `dim` slices, that equal their predecessor.

    With return_inverse also the index of each element in the result, with return_counts also the lengths of the runs.

    >>> ag.unique_consecutive(ag.tensor([1, 1, 2, 2, 1]))
    tensor([1, 2, 1])
    """
    refuse_batched("unique_consecutive", input, "use ag.diff")
    return _chosen(unique_runs(input, dim), return_inverse, return_counts)
