"""Elements moved and repeated: flip, roll, rot90, repeat, repeat_interleave."""

from __future__ import annotations

import math
import operator
from typing import Any

from ... import backend
from ...backend.arrays.dtypes import int32, int64
from ...backend.arrays.memory_format import copy_order
from ...core.extend import (
    LEADING,
    LINEAR,
    Tensor,
    along,
    counted_from_right,
    defop,
    method,
    one_by_one,
    other_words,
    public,
    rank,
    refuse_batched,
)
from ..indexing.basic_index import FULL, from_right, unpacked, wrap_dim
from ..indexing.index import advanced_index
from .permute import transpose
from .reshape import reshape


def _as_dims(dims: Any) -> tuple[int, ...]:
    return tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)


# ---- flip, roll, repeat --------------------------------------------------------------------------------


def _flip(xp, x, *, dims):
    key = [FULL] * (x.ndim or 1)
    for dim in _as_dims(dims):
        axis = wrap_dim(dim, x.ndim)
        if key[axis] is not FULL:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
        key[axis] = slice(None, None, -1)
    flipped = x[tuple(key)] if x.ndim else x
    return xp.array(flipped, order=copy_order(x))  # a copy, as in PyTorch


def _flip_back(F, g, x_shape, dims):
    return F.flip(g, [from_right(dim, len(x_shape)) for dim in _as_dims(dims)])


@defop
class flip:
    """x with the order along `dims`, an int or a tuple, reversed.

    >>> ag.flip(ag.tensor([1.0, 2.0, 3.0]), (0,))
    tensor([3., 2., 1.])
    """

    forward = _flip
    grad_x = _flip_back
    jvp, batch = LINEAR, along("dims")
    storage_ok = True
    takes_out = False
    public = True
    keeps_layout = True


@method("flip")
def flip_method(x: Tensor, *along: Any, dims: Any = None) -> Tensor:
    """x.flip(0, 1) or x.flip((0, 1)), see ag.flip."""
    return flip(x, unpacked(along, dims))


def _rolled(xp, x, shift, at):
    lead = (FULL,) * at
    cut = -shift % (x.shape[at] or 1)
    return xp.concatenate((x[(*lead, slice(cut, None))], x[(*lead, slice(cut))]), at)


NO_DIMENSIONS = "Dimension specified as {} but tensor has no dimensions"


def _roll(xp, x, *, shifts, dims=None):
    by, along = _as_dims(shifts), () if dims is None else _as_dims(dims)
    if dims is None and len(by) == 1:
        return _rolled(xp, x.reshape(-1), by[0], 0).reshape(x.shape)
    if len(by) != len(along) or not by:
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    for shift, dim in zip(by, along, strict=True):
        if not x.ndim:
            raise IndexError(NO_DIMENSIONS.format(dim))
        x = _rolled(xp, x, shift, wrap_dim(dim, x.ndim))
    return x


def _roll_back(F, g, x_shape, shifts, dims):
    back = [-shift for shift in _as_dims(shifts)]
    return F.roll(g, back, None if dims is None else [from_right(dim, len(x_shape)) for dim in _as_dims(dims)])


def _roll_batch(F, n, batched, x, *, shifts, dims):
    if dims is not None and not rank(x, True):
        raise IndexError(NO_DIMENSIONS.format(dims))
    if dims is None and len(_as_dims(shifts)) == 1:
        return F.reshape(F.roll(F.reshape(x, (n, math.prod(x.shape[1:]))), shifts, -1), x.shape)
    return F.roll(x, shifts, counted_from_right(dims, rank(x, True)))


@defop
class roll:
    """x with its elements shifted cyclically by `shifts` along `dims`; without `dims`, of the flattened x.

    >>> ag.roll(ag.tensor([1.0, 2.0, 3.0]), 1)
    tensor([3., 1., 2.])
    """

    forward = _roll
    grad_x = _roll_back
    jvp, batch = LINEAR, _roll_batch
    storage_ok = True
    takes_out = False
    public = methods = True


def _repeat(xp, x, *, sizes):
    if len(sizes) < x.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return xp.tile(x, sizes)


def _repeat_back(F, g, x_shape, sizes):
    # (s0 * n0, s1 * n1) -> (s0, n0, s1, n1), summed over every s
    shape = (1,) * (len(sizes) - len(x_shape)) + x_shape
    blocks = [size for pair in zip(sizes, shape, strict=True) for size in pair]
    kept = [size for n in shape for size in (1, n)]
    return F.reshape(F.sum_to(F.reshape(g, blocks), kept), x_shape)


def _repeat_batch(F, n, batched, x, *, sizes):
    missing = (1,) * (len(sizes) - rank(x, True))
    return F.repeat(F.reshape(x, (n, *missing, *x.shape[1:])) if missing else x, (1, *sizes))


@defop
class repeat:
    """x repeated `sizes[i]` times along dimension i; more sizes than dimensions add leading dimensions. A copy.

    >>> ag.tensor([1.0, 2.0]).repeat(2, 2)
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """

    forward = _repeat
    grad_x = _repeat_back
    jvp, batch = LINEAR, _repeat_batch
    storage_ok = True
    takes_out = False
    public = True


@method("repeat")
def repeat_method(x: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """x.repeat(2, 3) or x.repeat((2, 3)): x repeated 2 times along dimension 0 and 3 times along dimension 1."""
    return repeat(x, unpacked(sizes, repeats))


@public()
def tile(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """input repeated along its last dimensions; like repeat, with `dims` padded by leading ones.

    >>> ag.tile(ag.tensor([[1.0], [2.0]]), (2,))
    tensor([[1., 1.],
            [2., 2.]])
    """
    return repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


@method("tile")
def tile_method(x: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """x.tile(2, 3) or x.tile((2, 3)), see ag.tile."""
    return tile(x, unpacked(sizes, dims))


# ---- each element several times ------------------------------------------------------------------------


def _repeat_elements_back(F, g, x_shape, repeats, dim):
    blocks, kept = list(x_shape), list(x_shape)
    blocks.insert(dim + len(x_shape) + 1, repeats)
    kept.insert(dim + len(x_shape) + 1, 1)
    return F.reshape(F.sum_to(F.reshape(g, blocks), kept), x_shape)


@defop
class repeat_elements:
    """x with each index of dimension `dim` < 0 repeated `repeats` times.

    >>> ag.repeat_interleave(ag.tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.])
    """

    def forward(xp, x, *, repeats, dim): return x.repeat(repeats, dim)
    grad_x = _repeat_elements_back
    jvp, batch = LINEAR, LEADING
    storage_ok = True


def _check_counts(counts):
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.dtype not in (int64, int32):
        raise RuntimeError(f"repeats has to be Long or Int tensor, got {counts.dtype}; convert with .long()")
    if backend.seen_outside(counts, 0):
        raise RuntimeError("repeats can not be negative")


def _repeat_positions(xp, counts, *, total=None):
    _check_counts(counts)
    ends = counts.reshape(-1).cumsum()
    length = int(ends[-1]) if ends.size else 0
    if total is not None and length != total:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {length} but got {total}")
    return xp.searchsorted(ends, xp.arange(length), side="right")


def _repeat_positions_cuda(xp, counts, *, total=None):
    """The same without a look at the counts if the total is given."""
    if total is None:
        return _repeat_positions(xp, counts)
    _check_counts(counts)
    return xp.searchsorted(counts.reshape(-1).cumsum(), xp.arange(total), side="right")


def _repeat_positions_batch(F, n, batched, counts, *, total):
    if total is None:
        raise RuntimeError("repeat_positions cannot be batched: its length depends on the values; give it, as the "
                           "output_size of repeat_interleave")
    def run(counts): return F.repeat_positions(counts, total)
    return one_by_one(F, "repeat_positions", run, n, batched, (counts,))


@defop
class repeat_positions:
    """Index i repeated counts[i] times, for all i; `total`, the sum of counts, avoids a CUDA synchronization.

    >>> ag.repeat_interleave(ag.tensor([1, 0, 2]))
    tensor([0, 2, 2])
    """

    forward, cuda = _repeat_positions, _repeat_positions_cuda
    nondiff = True
    def sizes_by_value(counts, total): return total is None
    batch = _repeat_positions_batch


@public(methods=True)
@other_words
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """input with each index of dimension `dim` repeated `repeats` times, a number or a vector; without `dim`, of the
    flattened input. With input alone: index i repeated input[i] times, for all i.

    `output_size`, the length of the result, avoids a CUDA synchronization.

    >>> ag.repeat_interleave(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1, 2]), dim=0)
    tensor([[1., 2.],
            [3., 4.],
            [3., 4.]])
    """
    if output_size is None:
        refuse_batched("repeat_interleave", input if repeats is None else repeats, "give output_size")
    if repeats is None:
        return repeat_positions(input, output_size)
    if dim is None or not input.ndim:
        input, dim = reshape(input, (-1,)), 0 if dim is None else wrap_dim(dim, input.ndim)
    at = wrap_dim(dim, input.ndim)
    size = input.shape[at]
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        if repeats.shape != (size,):
            raise RuntimeError("repeats must have the same size as input along dim, but got repeats.size(0) = "
                               f"{repeats.numel()} and input.size({at}) = {size}")
        return advanced_index(input, repeat_positions(repeats, output_size), dims=(at - input.ndim,))
    repeats = operator.index(repeats)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    if output_size not in (None, repeats * size):
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {repeats * size} but got {output_size}")
    return repeat_elements(input, repeats, at - input.ndim)


# ---- fliplr, flipud, rot90 -----------------------------------------------------------------------------


@public(methods=True)
def fliplr(input: Tensor) -> Tensor:
    """input with the order of its columns, dimension 1, reversed.

    >>> ag.fliplr(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 1.],
            [4., 3.]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: Input must be >= 2-d, got {input.ndim}-d; use flip(x, dims)")
    return flip(input, (1,))


@public(methods=True)
def flipud(input: Tensor) -> Tensor:
    """input with the order of its rows, dimension 0, reversed.

    >>> ag.flipud(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d, got 0-d")
    return flip(input, (0,))


@public(methods=True)
def rot90(input: Tensor, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Tensor:
    """input rotated by k quarter turns in the plane of `dims`, from the first towards the second.

    >>> ag.rot90(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [1., 3.]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = wrap_dim(dims[0], input.ndim), wrap_dim(dims[1], input.ndim)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turned = ((), (b,), (a, b), (a,))[k % 4]
    return transpose(flip(input, turned), a, b) if k % 2 else flip(input, turned)
