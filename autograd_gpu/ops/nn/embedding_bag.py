"""The sum, mean or maximum of bags of rows of a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import wide
from ...core.extend import RECORD, Tensor, public, refuse_batched, wrap
from ...errors import ArgumentError
from ..creation.factories import arange, full, ones, zeros
from ..indexing.scatter import scatter_reduce

MODES = ("sum", "mean", "max")


@public()
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, mode: str = "mean",
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum (`mode`) of the rows of `weight` (V, D) in each bag: -> (bags, D).

    A bag is a row of an integer `input` (bags, n); or input is (n), and bag i goes from offsets[i] to the next offset
    or the end (with `include_last_offset` the last offset is the end). Rows `padding_idx` do not count; an empty bag
    gives 0. `per_sample_weights` scale the rows of a sum. Offsets are read on the host.

    >>> ag.embedding_bag(ag.tensor([0, 1, 1]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([0, 2]), mode="sum")
    tensor([[4., 6.],
            [3., 4.]])
    """
    _check(input, offsets, mode, per_sample_weights)
    if offsets is None and padding_idx is None:
        return _of_equal_bags(_rows(input, weight, per_sample_weights), mode)
    if offsets is None:
        bags = input.shape[0]
        numbers = np.arange(bags).repeat(input.shape[1])
    else:
        numbers, bags = _bag_numbers(input.shape[0], offsets, include_last_offset)
    input = input.reshape(-1)[: numbers.size]
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights.reshape(-1)[: numbers.size]
    bag = wrap(backend.to_device(numbers, input.device))
    if padding_idx is not None:  # one bag more takes the rows that do not count
        bag = RECORD.where(RECORD.eq(input, padding_idx % weight.shape[0]), bags, bag)
    reduce = _maximum if mode == "max" else _sum if mode == "sum" else _mean
    return reduce(_rows(input, weight, per_sample_weights), bag, bags + 1)[:bags]


def _rows(indices: Tensor, weight: Tensor, factors: Tensor | None) -> Tensor:
    rows: Tensor = RECORD.embedding(indices, weight)
    return rows if factors is None else rows * factors.unsqueeze(-1)


def _check(input: Tensor, offsets: Tensor | None, mode: str, per_sample_weights: Tensor | None) -> None:
    if mode not in MODES:
        raise ArgumentError("mode has to be one of sum, mean or max")
    if input.ndim == 2 and offsets is not None:
        raise ArgumentError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                            f"length sequences. However, found offsets of type {type(offsets)}")
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise ArgumentError(f"offsets has to be a 1D Tensor but got {None if offsets is None else offsets.shape}")
    if input.ndim not in (1, 2):
        raise ArgumentError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                                      f"supported for mode='sum' (got mode='{mode}').")
        if per_sample_weights.shape != input.shape:
            raise ArgumentError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, "
                                f"then it must have the same shape as the input ({list(input.shape)})")


def _bag_numbers(n: int, offsets: Tensor, include_last: bool) -> tuple[np.ndarray, int]:
    """The bag of each element of the input that is in one, ascending, and the number of bags."""
    refuse_batched("embedding_bag", offsets, "give all examples the same offsets")
    host = offsets.numpy(force=True)
    if not include_last:
        host = np.append(host, n)
    elif not host.size:
        raise ArgumentError("include_last_offset: number of offsets should be at least 1")
    lengths = np.diff(host)
    if host.size > 1 and (host[0] != 0 or (lengths < 0).any() or host[-1] > n):
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                           f"position 0, and offsets must not decrease nor exceed the input's length {n}. However, got "
                           f"{host.tolist()}")
    return np.arange(lengths.size).repeat(lengths), lengths.size


def _of_equal_bags(rows: Tensor, mode: str) -> Tensor:
    """The reduction of rows (bags, n, D) over n."""
    if mode == "sum" or not rows.shape[1]:  # each bag is empty
        return rows.sum(1)
    return rows.mean(1) if mode == "mean" else RECORD.max_dim(rows, 1)[0]


def _sum(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    """The sums of the rows (n, D) of each bag, in time and memory linear in n."""
    return RECORD.advanced_index_backward(rows, bag, dims=(-2,), shape=(bags, rows.shape[-1]))


def _mean(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    count = _sum(ones(rows.shape[0], 1, dtype=wide(rows.dtype), device=rows.device), bag, bags)
    return (_sum(rows.to(count.dtype), bag, bags) / count.clamp(1)).to(rows.dtype)


def _maximum(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    """The maxima of each bag; the first of several equal ones gets the gradient, and an empty bag is 0."""
    n, size = rows.shape
    how: dict[str, Any] = {"device": rows.device}
    values, at = rows.detach(), RECORD.expand(bag.unsqueeze(-1), (n, size))
    lowest = full((bags, size), -math.inf, dtype=rows.dtype, **how)
    highest = RECORD.gather_along(scatter_reduce(lowest, 0, at, values, "amax"), at, -2)
    places = RECORD.where((values == highest).logical_or(values.isnan()), arange(n, **how).unsqueeze(-1), n)
    first = scatter_reduce(full((bags, size), n, **how), 0, at, places, "amin")
    return RECORD.gather_along(RECORD.cat([rows, zeros(1, size, dtype=rows.dtype, **how)], -2), first, -2)
