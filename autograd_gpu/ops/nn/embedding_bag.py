"""The sum, mean or maximum of bags of rows of a table."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...core.extend import RECORD, Tensor, public, refuse_batched, wrap
from ...errors import ArgumentError

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
    indices, counts = input, None
    if offsets is not None:
        indices, counts = _bag_indices(input.shape[0], offsets, include_last_offset)
        indices = RECORD.advanced_index(input, indices, dims=(-1,))
        if per_sample_weights is not None:
            per_sample_weights = RECORD.advanced_index(per_sample_weights, indices, dims=(-1,))
    if padding_idx is not None:
        proper = RECORD.ne(indices, padding_idx % weight.shape[0])
        counts = proper if counts is None else RECORD.logical_and(counts, proper)
    rows = RECORD.embedding(indices, weight)  # (bags, longest, D)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    return _reduced(rows, counts, mode)


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


def _bag_indices(n: int, offsets: Tensor, include_last: bool) -> tuple[Tensor, Tensor]:
    """(bags, longest) indices into the input, and a mask of those inside of the bags."""
    refuse_batched("embedding_bag", offsets, "give all examples the same offsets")
    host = offsets.numpy(force=True)
    if not include_last:
        host = np.append(host, n)
    elif not host.size:
        raise ArgumentError("include_last_offset: number of offsets should be at least 1")
    starts, ends = host[:-1], host[1:]
    if host.size > 1 and (starts[0] != 0 or (ends < starts).any() or ends[-1] > n):
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                           f"position 0, and offsets must not decrease nor exceed the input's length {n}. However, got "
                           f"{host.tolist()}")
    lengths = (ends - starts)[:, None]
    steps = np.arange(lengths.max(initial=0))
    indices, counts = np.clip(starts[:, None] + steps, 0, max(n - 1, 0)), steps < lengths
    return wrap(backend.to_device(indices, offsets.device)), wrap(backend.to_device(counts, offsets.device))


def _reduced(rows: Tensor, counts: Tensor | None, mode: str) -> Tensor:
    if not rows.shape[1]:  # each bag is empty
        return rows.sum(1)
    if counts is None:
        return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else RECORD.max_dim(rows, 1)[0]
    mask = counts.unsqueeze(-1)
    if mode == "max":
        highest = RECORD.max_dim(RECORD.where(mask, rows, -math.inf), 1)[0]
        return RECORD.where(mask.any(1), highest, 0.0)
    total = RECORD.where(mask, rows, 0.0).sum(1)
    return total if mode == "sum" else total / mask.sum(1).clamp(1)
