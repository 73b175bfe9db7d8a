"""Concatenation: along a dimension, side by side, on a diagonal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...backend.cuda import exact
from ...core.extend import LINEAR, PROMOTE, Tensor, counted_from_right, defop, expanded, public, rank
from ..creation.factories import zeros
from ..indexing.basic_index import from_right, key_along, wrap_dim
from .broadcast import atleast_3d
from .reshape import reshape

# ---- along a dimension -------------------------------------------------------------------------------------------


def _cat(xp, *tensors, dim=0):
    try:
        return exact.concatenate(xp, tensors, dim)
    except ValueError:
        nonempty = [x for x in tensors if x.shape != (0,)] or tensors  # PyTorch skips empty vectors
        if len(nonempty) < len(tensors):
            return _cat(xp, *nonempty, dim=dim)
        raise _misfit([x.shape for x in tensors], dim) from None


def _misfit(shapes, dim):
    ndim = len(shapes[0])
    for i, shape in enumerate(shapes):
        if not shape:
            return RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if len(shape) != ndim:
            return RuntimeError(f"Tensors must have same number of dimensions: got {ndim} and {len(shape)}")
    dim = wrap_dim(dim, ndim)
    for i, shape in enumerate(shapes):
        for d in range(ndim):
            if d != dim and shape[d] != shapes[0][d]:
                return RuntimeError(f"Sizes of tensors must match except in dimension {dim}. Expected size "
                                    f"{shapes[0][d]} but got size {shape[d]} for tensor number {i} in the list.")
    raise AssertionError(f"cat of {shapes} along {dim} should have worked")


def _cat_back(F, g, need, dim, tensors_shape):
    """Each tensor's part of g; skipped empty vectors have none."""
    ndim = max(map(len, tensors_shape))
    dim = from_right(dim, ndim)
    parts, end = [], 0
    for needed, shape in zip(need, tensors_shape, strict=True):
        start, end = end, end + (shape[dim] if len(shape) == ndim else 0)
        part = F.basic_index(g, key_along(dim, slice(start, end))) if needed else None
        parts.append(part if part is None or len(shape) == ndim else F.reshape(part, (0,)))
    return parts


def _cat_batch(F, n, batched, *tensors, dim):
    if not all(map(rank, tensors, batched)):
        raise _misfit([x.shape[b:] for x, b in zip(tensors, batched, strict=True)], dim)
    whole = expanded(F, n, batched, tensors)
    like = max((x.shape for x in whole), key=len)
    dim = counted_from_right(dim, len(like) - 1)
    nothing = (*like[:dim], 0, *like[len(like) + dim + 1 :])  # the shape of the others if empty vectors are skipped
    return F.cat([F.reshape(x, nothing) if x.shape == (n, 0) else x for x in whole], dim)


@defop
class cat:
    """The tensors concatenated along dimension `dim`; their other sizes must agree.

    >>> ag.cat([ag.tensor([1.0]), ag.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """

    forward = _cat
    in_numpy = np.concatenate
    grads = _cat_back
    jvp, batch = LINEAR, _cat_batch
    types = PROMOTE
    storage_ok = True
    public = "cat", "concat", "concatenate"


def _stack(xp, *tensors, dim=0):
    shape = tensors[0].shape
    at = wrap_dim(dim, len(shape) + 1)
    for i, x in enumerate(tensors):
        if x.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                               f"{list(x.shape)} at entry {i}")
    expanded = (*shape[:at], 1, *shape[at:])
    return exact.concatenate(xp, [x.reshape(expanded) for x in tensors], at)


def _stack_in_numpy(tensors, dim):
    shape = tensors[0].shape
    for x in tensors:
        if x.shape != shape:
            raise ValueError
    if dim or not shape:
        return _stack(np, *tensors, dim=dim)
    return np.concatenate(tensors).reshape((len(tensors), *shape))


@defop
class stack:
    """The tensors, all of the same shape, stacked along a new dimension `dim`.

    >>> ag.stack([ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])], 1)
    tensor([[1., 3.],
            [2., 4.]])
    """

    forward = _stack
    in_numpy = _stack_in_numpy
    def grads(F, g, need, dim):
        dim = from_right(dim, g.ndim)
        return [F.basic_index(g, key_along(dim, i)) if needed else None for i, needed in enumerate(need)]
    def batch(F, n, batched, *tensors, dim):
        whole = expanded(F, n, batched, tensors)
        return F.stack(whole, counted_from_right(dim, whole[0].ndim))
    jvp = LINEAR
    types = PROMOTE
    storage_ok = True
    public = True


@public(out=True)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along dimension 0.

    >>> ag.hstack([ag.ones(2, 1), ag.zeros(2, 1)])
    tensor([[1., 0.],
            [1., 0.]])
    """
    raised = [x if x.ndim else reshape(x, (1,)) for x in tensors]
    return cat(raised, 0 if raised and raised[0].ndim == 1 else 1)


@public("vstack", "row_stack", out=True)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one below the other: along dimension 0, vectors as rows.

    >>> ag.vstack([ag.ones(2), ag.zeros(2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    return cat([x if x.ndim > 1 else reshape(x, (1, -1)) for x in tensors], 0)


@public(out=True)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one behind the other: along dimension 2; vectors as rows (1, n, 1), matrices as (m, n, 1).

    >>> ag.dstack([ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])])
    tensor([[[1., 3.],
             [2., 4.]]])
    """
    return cat([atleast_3d(x) for x in tensors], 2)


@public(out=True)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side, vectors and 0-d tensors as columns.

    >>> ag.column_stack([ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])])
    tensor([[1., 3.],
            [2., 4.]])
    """
    return cat([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in tensors], 1)


concat = concatenate = cat
row_stack = vstack


# ---- on the diagonal -----------------------------------------------------------------------------------


def _corners(shapes):
    """The first row and column of each matrix, and the end of the last one."""
    for i, shape in enumerate(shapes):
        if len(shape) > 2:
            raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                               f"Input {i} has {len(shape)} dimensions")
    sizes = [(1,) * (2 - len(shape)) + tuple(shape) for shape in shapes]
    return list(itertools.accumulate(sizes, lambda end, size: (end[0] + size[0], end[1] + size[1]), initial=(0, 0)))


def _block_diag(xp, *tensors):
    *starts, end = _corners([x.shape for x in tensors])
    out = xp.zeros(end, tensors[0].dtype)
    for x, (row, column) in zip(tensors, starts, strict=True):
        matrix = x.reshape((1,) * (2 - x.ndim) + x.shape)
        out[row : row + matrix.shape[0], column : column + matrix.shape[1]] = matrix
    return out


def _block_diag_back(F, g, need, tensors_shape):
    parts, corners = [], itertools.pairwise(_corners(tensors_shape))
    for needed, shape, (start, end) in zip(need, tensors_shape, corners, strict=True):
        key = (..., slice(start[0], end[0]), slice(start[1], end[1]))
        parts.append(F.reshape(F.basic_index(g, key), shape) if needed else None)
    return parts


def _block_diag_batch(F, n, batched, *tensors):
    whole = expanded(F, n, batched, tensors)
    *starts, (_, columns) = _corners([x.shape[1:] for x in whole])
    matrices = [F.reshape(x, (n, *(1,) * (3 - x.ndim), *x.shape[1:])) for x in whole]
    rows = [F.constant_pad(x, (start, columns - start - x.shape[-1]))
            for x, (_, start) in zip(matrices, starts, strict=True)]
    return F.cat(rows, -2)


@defop
class stack_diagonally:
    """The matrices on the diagonal of a matrix of zeros; see block_diag.

    >>> from autograd_gpu.ops.shape.concat import stack_diagonally
    >>> stack_diagonally([ag.ones(1, 1), ag.ones(1, 2)])
    tensor([[1., 0., 0.],
            [0., 1., 1.]])
    """

    forward = _block_diag
    grads = _block_diag_back
    jvp, batch = LINEAR, _block_diag_batch
    types = PROMOTE


@public()
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrices on the diagonal of a matrix of zeros; vectors as rows, 0-d tensors as 1 x 1.

    >>> ag.block_diag(ag.ones(1, 1), ag.tensor([2.0, 3.0]))
    tensor([[1., 0., 0.],
            [0., 2., 3.]])
    """
    return stack_diagonally(tensors) if tensors else zeros(1, 0)
