"""Splitting along a dimension: split, chunk, tensor_split, unbind. All of them return views."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...backend.arrays.dtypes import int64
from ...core.extend import (
    ALWAYS,
    LINEAR,
    LevelTensor,
    Tensor,
    as_number,
    defop,
    example,
    method,
    other_words,
    public,
    rank,
)
from ..indexing.basic_index import FULL, basic_index, from_right, key_along, wrap_dim


def _split(xp, x, *, split_sizes, dim=0):
    if x.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    at = wrap_dim(dim, x.ndim)
    if sum(split_sizes) != x.shape[at] or min(split_sizes, default=0) < 0:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {x.shape[at]} (input tensor's size "
                           f"at dimension {at}), but got split_sizes={list(split_sizes)}")
    lead, parts, start = (FULL,) * at, [], 0
    for size in split_sizes:
        parts.append(x[(*lead, slice(start, start + size))])
        start += size
    return parts


def _split_back(F, g, x_shape, split_sizes, dim):
    """The concatenated gradients; a missing one becomes padding of the next one, or of the last."""
    dim = from_right(dim, len(x_shape))
    lead = (0, 0) * (-1 - dim)
    parts, before = [], 0
    for i, part in enumerate(g):
        if part is None:
            before += split_sizes[i]
            continue
        if before:
            part = F.constant_pad(part, (*lead, before, 0))
            before = 0
        parts.append(part)
    if before:
        parts[-1] = F.constant_pad(parts[-1], (*lead, 0, before))
    return F.cat(parts, dim) if len(parts) > 1 else parts[0]


def _split_batch(F, n, batched, x, *, split_sizes, dim):
    _split(np, example(x), split_sizes=split_sizes, dim=dim)  # raises for sizes that do not fit a sample
    return F.split_with_sizes(x, split_sizes, from_right(dim, rank(x, True)))


@defop
class split_with_sizes:
    """The tensor split along `dim` into views of these sizes.

    >>> ag.split_with_sizes(ag.tensor([1.0, 2.0, 3.0]), (1, 2))
    (tensor([1.]), tensor([2., 3.]))
    """

    forward = _split
    grad_x = _split_back
    outputs, view = ("*",), ALWAYS
    storage_ok = True
    jvp, batch = LINEAR, _split_batch
    public = methods = True


@public()
@other_words
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The tensor split along `dim` into views of one size (the last may be smaller), or of several sizes.

    >>> ag.split(ag.tensor([1.0, 2.0, 3.0]), 2)
    (tensor([1., 2.]), tensor([3.]))
    """
    step = as_number("split", "split_size", split_size_or_sections)
    if not isinstance(step, int):
        return split_with_sizes(tensor, tuple(step), dim)
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    length = tensor.shape[wrap_dim(dim, tensor.ndim)]
    if step < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
    if step == 0 and length:
        raise RuntimeError("split_size can only be 0 if dimension size is 0, but got dimension size of "
                           f"{length}")
    starts = range(0, length, step) if length else (0,)
    return split_with_sizes(tensor, tuple(min(step, length - start) for start in starts), dim)


@method("split")
@other_words
def split_method(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """See ag.split."""
    return split(x, split_size, dim)


@public(methods=True)
@other_words
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """input split along `dim` into at most `chunks` views of equal size; the last may be smaller.

    >>> ag.chunk(ag.tensor([1.0, 2.0, 3.0]), 2)
    (tensor([1., 2.]), tensor([3.]))
    """
    chunks = as_number("chunk", "chunks", chunks)
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    length = input.shape[wrap_dim(dim, input.ndim)]
    if not length:
        return split_with_sizes(input, (0,) * chunks, dim)
    step = -(-length // chunks)
    full, rest = divmod(length, step)
    return split_with_sizes(input, (step,) * full + ((rest,) if rest else ()), dim)


def _unbind(xp, x, *, dim=0):
    if x.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    at = wrap_dim(dim, x.ndim)
    lead = (FULL,) * at
    return [x[(*lead, i, ...)] for i in range(x.shape[at])]


def _unbind_back(F, g, x_shape, dim):
    present = next(part for part in g if part is not None)
    parts = [F.constant_like(present, 0.0) if part is None else part for part in g]
    return F.stack(parts, from_right(dim, len(x_shape)))


def _unbind_batch(F, n, batched, x, *, dim):
    _unbind(np, example(x), dim=dim)  # as in _split_batch
    return F.unbind(x, from_right(dim, rank(x, True)))


@defop
class unbind:
    """The views of x at each index of dimension `dim`, without that dimension.

    >>> ag.unbind(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 2.]), tensor([3., 4.]))
    """

    forward = _unbind
    grad_x = _unbind_back
    outputs, view = ("*",), ALWAYS
    storage_ok = True
    jvp, batch = LINEAR, _unbind_batch
    public = methods = True


# ---- at indices, or into a number of parts -------------------------------------------------------------


@public(methods=True)
@other_words
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """input split along `dim` into a number of views, the first ones longer by one if the size is not divisible; or
    before each of several indices. A CPU tensor of int64 is taken as a number or as indices.

    >>> ag.tensor_split(ag.tensor([1.0, 2.0, 3.0]), 2)
    (tensor([1., 2.]), tensor([3.]))
    >>> ag.tensor_split(ag.tensor([1.0, 2.0, 3.0]), (1, 1))
    (tensor([1.]), tensor([]), tensor([2., 3.]))
    """
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    where = indices_or_sections
    if isinstance(where, Tensor):
        if where.dtype != int64 or where.ndim > 1:
            raise RuntimeError("tensor_split expected tensor_indices_or_sections to be a 0-d or 1-d tensor of dtype "
                               f"int64, but got {where.ndim} dimensions of {where.dtype}")
        where = where.tolist()
    at = wrap_dim(dim, input.ndim)
    size = input.shape[at]
    if isinstance(where, int):
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        short, longer = divmod(size, where)
        return split_with_sizes(input, (short + 1,) * longer + (short,) * (where - longer), at)
    cuts = [0, *[min(max(cut + size if cut < 0 else cut, 0), size) for cut in where], size]
    pairs = list(itertools.pairwise(cuts))
    if all(start <= end for start, end in pairs):
        return split_with_sizes(input, tuple([end - start for start, end in pairs]), at)
    return tuple([basic_index(input, key_along(at - input.ndim, slice(start, end))) for start, end in pairs])


def _even_split(
    name: str, x: Tensor, indices_or_sections: int | Sequence[int], dim: int, least: int
) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
                           f"{x.ndim} dimensions!")
    sections = indices_or_sections
    if isinstance(sections, int) and (sections <= 0 or x.shape[dim] % sections):
        raise RuntimeError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                           f"{x.shape[dim]} is not divisible by the split_size {sections}!")
    return tensor_split(x, sections, dim)


@public(methods=True)
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """input split along dimension 1, a vector along dimension 0; see tensor_split. A number has to divide the size.

    >>> ag.hsplit(ag.tensor([[1.0, 2.0]]), 2)
    (tensor([[1.]]), tensor([[2.]]))
    """
    return _even_split("hsplit", input, indices_or_sections, 0 if input.ndim < 2 else 1, 1)


@public(methods=True)
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """input split along dimension 0; see tensor_split. A number has to divide the size.

    >>> ag.vsplit(ag.tensor([[1.0], [2.0]]), 2)
    (tensor([[1.]]), tensor([[2.]]))
    """
    return _even_split("vsplit", input, indices_or_sections, 0, 2)


@public(methods=True)
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """input split along dimension 2; see tensor_split. A number has to divide the size.

    >>> ag.dsplit(ag.ones(1, 1, 2), 2)
    (tensor([[[1.]]]), tensor([[[1.]]]))
    """
    return _even_split("dsplit", input, indices_or_sections, 2, 3)


# ---- results that are no views to autograd ---------------------------------------------------------------


def _unsafe(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The parts as tensors that autograd does not treat as views, each with its own version counter."""
    for part in parts:
        below = part
        while isinstance(below, LevelTensor):
            below = below._value
        below._base = None
        if not below.is_inference():
            below._storage = None
    return parts


@public(methods=True)
@other_words
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """split, whose results may be written to while recording: they share memory with input, which autograd ignores.

    After a write to one of them, do not use input or another tensor that shares its memory.

    >>> a, b = ag.unsafe_split(ag.ones(4, requires_grad=True) * 2, 2)
    >>> a.mul_(3)
    tensor([6., 6.], grad_fn=<MulBackward0>)
    """
    return _unsafe(split(input, split_size, dim))


@public(methods=True)
@other_words
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """split_with_sizes, whose results may be written to while recording: see unsafe_split.

    >>> ag.unsafe_split_with_sizes(ag.ones(3), (1, 2))
    (tensor([1.]), tensor([1., 1.]))
    """
    return _unsafe(split_with_sizes(input, tuple(split_sizes), dim))


@public(methods=True)
@other_words
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """chunk, whose results may be written to while recording: see unsafe_split.

    >>> ag.unsafe_chunk(ag.ones(3), 2)
    (tensor([1., 1.]), tensor([1.]))
    """
    return _unsafe(chunk(input, chunks, dim))
