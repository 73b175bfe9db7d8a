"""Diagonals of matrices, their sum, and triangles."""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes, strides
from ...backend.arrays.device import or_default
from ...backend.cuda import exact
from ...core.extend import (
    ALWAYS,
    LINEAR,
    MATRICES,
    RECORD,
    SAME,
    Tensor,
    along,
    counted_from_right,
    defop,
    public,
    wrap,
)
from ..creation.convert import clone, to
from ..indexing.basic_index import from_right, wrap_dim
from ..reduction.sum import sum
from .reshape import reshape

FEW = 1024  # up to so many elements, the indices of triangles are cached
LONG = 256  # from so many indices per row on, those of one row after the other are written
# A triangle is cut out by a cached mask where a matrix has at most MASKED elements. Above that, and with more than
# PER_ROW elements in all for each row, or column if these are fewer, it is copied row by row, or column by column.
MASKED, PER_ROW = 1 << 17, 1 << 10

# ---- diagonals -----------------------------------------------------------------------------------------


def _diagonal(xp, x, *, offset=0, dim1=0, dim2=1):
    if wrap_dim(dim1, x.ndim) == wrap_dim(dim2, x.ndim):
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return strides.diagonal(x, offset, dim1, dim2)


def _diagonal_back(F, g, x_shape, offset, dim1, dim2):
    ndim = len(x_shape)
    return F.diagonal_backward(g, x_shape, offset, from_right(dim1, ndim), from_right(dim2, ndim))


@defop
class diagonal:
    """The elements of x with index i in dim1 and i + offset in dim2, as the last dimension. A view.

    >>> ag.diagonal(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """

    forward = _diagonal
    grad_x = _diagonal_back
    view = ALWAYS
    storage_ok = True
    jvp, batch = LINEAR, along("dim1", "dim2")
    public = methods = True


def _diagonal_backward(xp, g, *, shape, offset=0, dim1=0, dim2=1):
    out = xp.zeros(shape, g.dtype)
    _diagonal(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = g
    return out


def _diagonal_backward_batch(F, n, batched, g, *, shape, offset, dim1, dim2):
    dim1, dim2 = counted_from_right((dim1, dim2), len(shape))
    return F.diagonal_backward(g, (n, *shape), offset, dim1, dim2)


@defop
class diagonal_backward:
    """Zeros of `shape` with g on the diagonal: the transpose of diagonal.

    >>> from autograd_gpu.ops.shape.diagonal import diagonal_backward
    >>> diagonal_backward(ag.tensor([1.0, 4.0]), (2, 2))
    tensor([[1., 0.],
            [0., 4.]])
    """

    forward = _diagonal_backward
    def grad_g(F, g, offset, dim1, dim2): return F.diagonal(g, offset, dim1, dim2)
    jvp, batch = LINEAR, _diagonal_backward_batch


def _diagonal_set(xp, x, src, *, offset=0, dim1=0, dim2=1):
    out = xp.array(x)
    view = _diagonal(xp, out, offset=offset, dim1=dim1, dim2=dim2)
    if hasattr(src, "shape") and src.shape != view.shape:
        raise RuntimeError("expected src to have a size equal to the slice of self. "
                           f"src size = {list(src.shape)}, slice size = {list(view.shape)}")
    view[...] = exact.assignable(src, out)
    return out


@defop
class diagonal_set:
    """x with `src`, a tensor of the diagonal's shape or a number, on its diagonal; see diagonal_scatter.

    >>> from autograd_gpu.ops.shape.diagonal import diagonal_set
    >>> diagonal_set(ag.zeros(2, 2), 1.0)
    tensor([[1., 0.],
            [0., 1.]])
    """

    forward = _diagonal_set
    def grad_x(F, g, offset, dim1, dim2): return F.diagonal_set(g, 0.0, offset, dim1, dim2)
    def grad_src(F, g, offset, dim1, dim2): return F.diagonal(g, offset, dim1, dim2)
    types, numbers, selects_only = SAME, True, True
    jvp, batch = LINEAR, along("dim1", "dim2")


@public(methods=True)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with `src` instead of diagonal(input, offset, dim1, dim2), whose shape it has.

    >>> ag.diagonal_scatter(ag.zeros(2, 2), ag.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    dim1, dim2 = wrap_dim(dim1, input.ndim) - input.ndim, wrap_dim(dim2, input.ndim) - input.ndim
    return diagonal_set(input, to(src, input.dtype), offset, dim1, dim2)


@public(methods=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of input on diagonal number `offset` of the new dimensions dim1 and dim2.

    >>> ag.diag_embed(ag.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    ndim = input.ndim + 1
    at1, at2 = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if at1 == at2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    *shape, length = input.shape
    for at in sorted((at1, at2)):
        shape.insert(at, length + abs(offset))
    return diagonal_backward(input, tuple(shape), offset, at1 - ndim, at2 - ndim)


@public(methods=True, out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with the vector input on diagonal number `diagonal`; or that diagonal of the matrix input, as a copy.

    >>> ag.diag(ag.tensor([1.0, 2.0]), 1)
    tensor([[0., 1., 0.],
            [0., 0., 2.],
            [0., 0., 0.]])
    """
    if input.ndim == 1:
        size = input.shape[0] + abs(diagonal)
        return diagonal_backward(input, (size, size), diagonal, -2, -1)
    if input.ndim == 2:
        return clone(RECORD.diagonal(input, diagonal))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")


@public(methods=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the elements of input, of any shape, on diagonal number `offset`.

    >>> ag.diagflat(ag.tensor([[1.0], [2.0]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return diag(reshape(input, (-1,)), offset)


@public(methods=True)
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> ag.trace(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return sum(diagonal(input))


# ---- triangles -----------------------------------------------------------------------------------------


def _check_matrix(name, x):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


def _triangle_cuda(name, xp, x, *, diagonal=0):
    _check_matrix(name, x)
    return exact.triangle(name, x, diagonal)


def _triangle(name, xp, x, *, diagonal=0):
    _check_matrix(name, x)
    rows, columns = x.shape[-2:]
    if rows * columns > MASKED or x.size > PER_ROW * min(rows, columns):
        return _copied_triangle(x, name == "tril", diagonal)
    out = np.array(x)
    np.copyto(out, False, where=_zero_mask(rows, columns, diagonal, name == "tril"))
    return out


@functools.lru_cache(maxsize=64)
def _zero_mask(rows, columns, diagonal, lower):
    """The mask of the zeros of a triangle."""
    return np.logical_xor(np.tri(rows, columns, diagonal if lower else diagonal - 1, bool), lower)


def _copied_triangle(x, lower, diagonal):
    """The triangle copied by rows, or by columns if these are fewer; 3 to 5 times as fast as np.tril."""
    out = np.zeros(x.shape, x.dtype)
    rows, columns = x.shape[-2:]
    if rows <= columns:  # row i: columns up to i + diagonal, or from there on
        cuts = range(diagonal + lower, diagonal + lower + rows)
        keys = [(..., i, _side(cut, lower)) for i, cut in enumerate(cuts)]
    else:  # column j: rows from j - diagonal on, or up to there
        first = (not lower) - diagonal
        cuts = range(first, first + columns)
        keys = [(..., _side(cut, not lower), j) for j, cut in enumerate(cuts)]
    for key in keys:
        out[key] = x[key]
    return out


def _side(cut, before):
    cut = max(cut, 0)
    return slice(cut) if before else slice(cut, None)


@defop
class tril:
    """The lower triangle of a matrix, or of each in a batch; zeros above diagonal number `diagonal`.

    >>> ag.tril(ag.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """

    forward, cuda = partial(_triangle, "tril"), partial(_triangle_cuda, "tril")
    def grad_x(F, g, diagonal): return F.tril(g, diagonal)
    jvp, batch = LINEAR, MATRICES
    public = methods = inplace = True


@defop
class triu:
    """The upper triangle of a matrix, or of each in a batch; zeros below diagonal number `diagonal`.

    >>> ag.triu(ag.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """

    forward, cuda = partial(_triangle, "triu"), partial(_triangle_cuda, "triu")
    def grad_x(F, g, diagonal): return F.triu(g, diagonal)
    jvp, batch = LINEAR, MATRICES
    public = methods = inplace = True


def _corner_indices(name: str, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    for what, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{what} must be non-negative, got {size}")
    if dtype not in dtypes.INTEGERS:
        raise RuntimeError(f'"{name}" not implemented for {dtypes.as_dtype(dtype)}; indices are integers')
    home = or_default(device)
    if home.type == "cpu" and row * col <= FEW:
        return wrap(_few_corner_indices(name, row, col, offset).astype(dtypes.as_dtype(dtype)))
    if home.type == "cpu":
        indices = _many_corner_indices(name == "tril_indices", row, col, offset)
        return wrap(indices.astype(dtypes.as_dtype(dtype), copy=False))
    indices = _corner(name, backend.make(home, "arange", row), backend.make(home, "arange", col), offset)
    return wrap(backend.namespace(*indices).stack(indices).astype(dtypes.as_dtype(dtype), copy=False))


def _corner(name: str, rows: Any, columns: Any, offset: int) -> Any:
    below = rows.reshape(-1, 1) + offset - columns  # >= 0 on and below diagonal number `offset`
    return (below >= 0 if name == "tril_indices" else below <= 0).nonzero()


@functools.lru_cache(256)
def _few_corner_indices(name: str, row: int, col: int, offset: int) -> np.ndarray:
    return np.stack(_corner(name, np.arange(row), np.arange(col), offset))


def _many_corner_indices(lower: bool, row: int, col: int, offset: int) -> np.ndarray:
    """The indices, without a mask of the whole matrix."""
    bounds = np.clip(np.arange(row) + offset + lower, 0, col)
    starts, counts = (np.zeros_like(bounds), bounds) if lower else (bounds, col - bounds)
    out = np.empty((2, counts.sum()), np.int64)
    if out.shape[1] > LONG * row:
        _fill_rows(out, starts, counts, np.arange(col))
        return out
    out[0] = np.repeat(np.arange(row), counts)
    np.subtract(np.arange(out.shape[1]), np.repeat(np.cumsum(counts) - counts - starts, counts), out=out[1])
    return out


def _fill_rows(out: np.ndarray, starts: np.ndarray, counts: np.ndarray, columns: np.ndarray) -> None:
    """Writes the indices of one row after the other: a fourth of the time of `repeat` if the rows are long."""
    at = 0
    for i, (start, count) in enumerate(zip(starts, counts, strict=True)):
        out[0, at : at + count] = i
        out[1, at : at + count] = columns[start : start + count]
        at += count


@public()
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """(2, n): rows and columns of the elements of a row x col matrix that `tril(x, offset)` keeps.

    >>> ag.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _corner_indices("tril_indices", row, col, offset, dtype, device)


@public()
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """(2, n): rows and columns of the elements of a row x col matrix that `triu(x, offset)` keeps.

    >>> ag.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _corner_indices("triu_indices", row, col, offset, dtype, device)


@public("linalg.diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal number `offset` of each matrix of a batch, a view; the matrices lie in dim1 and dim2.

    >>> ag.linalg.diagonal(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return diagonal(A, offset, dim1, dim2)
