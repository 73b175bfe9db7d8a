"""Permutations of dimensions: permute, transpose, movedim and others. All of them return views."""

from __future__ import annotations

from typing import Any

from ...core.extend import ALWAYS, LINEAR, Tensor, along, counted_from_right, defop, method, public, rank
from ..indexing.basic_index import from_right, unpacked, wrap_dim


def _permute(xp, x, *, dims):
    if len(dims) != x.ndim:
        raise RuntimeError("permute: number of dimensions in the tensor input does not match the length of the "
                           f"desired ordering of dimensions i.e. input.dim() = {x.ndim} is not equal to "
                           f"len(dims) = {len(dims)}")
    try:
        return x.transpose(dims)
    except ValueError:
        for dim in dims:
            wrap_dim(dim, x.ndim)
        raise RuntimeError("permute(): duplicate dims are not allowed.") from None


def _inverse(dims):
    inverse = [0] * len(dims)
    for i, dim in enumerate(dims):
        inverse[dim] = i
    return inverse


@defop
class permute:
    """x with its dimensions in the order `dims`. A view.

    >>> ag.permute(ag.ones(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """

    forward = _permute
    def grad_x(F, g, dims): return F.permute(g, _inverse(dims))
    def batch(F, n, batched, x, *, dims): return F.permute(x, (0, *counted_from_right(dims, rank(x, True))))
    jvp = LINEAR
    view = ALWAYS
    storage_ok = True
    public = True


def _transpose(xp, x, *, dim0, dim1):
    try:
        return x.swapaxes(dim0, dim1)
    except ValueError:  # a 0-d tensor has a dimension 0, a 0-d array has not
        wrap_dim(dim0, x.ndim), wrap_dim(dim1, x.ndim)
        return x


def _transpose_back(F, g, x_shape, dim0, dim1):
    return F.transpose(g, from_right(dim0, len(x_shape)), from_right(dim1, len(x_shape)))


@defop
class transpose:
    """x with the dimensions dim0 and dim1 swapped. A view.

    >>> ag.transpose(ag.ones(2, 3), 0, 1).shape
    (3, 2)
    """

    forward = _transpose
    grad_x = _transpose_back
    jvp, batch = LINEAR, along("dim0", "dim1")
    view = ALWAYS
    storage_ok = True
    public = "transpose", "swapdims"
    methods = inplace = True


def _matrix_transpose(xp, x):
    _refuse_vector(x.ndim)
    return x.swapaxes(-1, -2) if x.ndim else x


def _matrix_transpose_batch(F, n, batched, x):
    ndim = rank(x, True)
    _refuse_vector(ndim)
    return F.mT(x) if ndim else x


def _refuse_vector(ndim):
    if ndim == 1:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {ndim}-D tensor.")


@defop
class mT:
    """x with its last two dimensions swapped; a 0-d x as it is. A view.

    >>> ag.ones(5, 2, 3).mT.shape
    (5, 3, 2)
    """

    forward = _matrix_transpose
    def grad_x(F, g): return F.mT(g)
    jvp, batch = LINEAR, _matrix_transpose_batch
    view = ALWAYS
    storage_ok = True


@method("permute")
def permute_method(x: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """x.permute(1, 0) or x.permute((1, 0)), see ag.permute."""
    return permute(x, unpacked(order, dims))


def transpose_all(x: Tensor) -> Tensor:
    """x with its dimensions in reverse order. A view."""
    if len(x._array.shape) == 2:
        return permute(x, (1, 0))
    return permute(x, tuple(range(x.ndim - 1, -1, -1)))


@public(methods=True)
def adjoint(input: Tensor) -> Tensor:
    """input with its last two dimensions swapped, and conjugated, which has no effect on real numbers. A view.

    RuntimeError for a vector.

    >>> ag.adjoint(ag.ones(5, 2, 3)).shape
    (5, 3, 2)
    """
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return mT(input) if input.ndim else input


def hermitian(x: Tensor) -> Tensor:
    """The conjugate transpose of a matrix. A view."""
    if x.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {x.ndim}-D tensor."
                           + " For batches of matrices, consider using tensor.mH" * (x.ndim > 2))
    return adjoint(x)


@public(methods=True, inplace=True, view=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; a vector or 0-d tensor unchanged.

    >>> ag.t(ag.ones(2, 3)).shape
    (3, 2)
    """
    if len(input._array.shape) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose_all(input)


@public("movedim", "moveaxis", methods=True)
def movedim(input: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """input with the dimensions `source` moved to the positions `destination`; the others keep their order. A view.

    >>> ag.movedim(ag.ones(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    if type(source) is int and type(destination) is int:
        order = list(range(input.ndim or 1))
        order.insert(wrap_dim(destination, input.ndim), order.pop(wrap_dim(source, input.ndim)))
        return permute(input, tuple(order)) if input.ndim else input
    sources, targets = ((dims,) if isinstance(dims, int) else dims for dims in (source, destination))
    if len(sources) != len(targets):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({list(sources)}) should contain "
                           f"the same number of dims as destination ({list(targets)})")
    froms, tos = [wrap_dim(dim, input.ndim) for dim in sources], [wrap_dim(dim, input.ndim) for dim in targets]
    if len(set(froms)) < len(froms) or len(set(tos)) < len(tos):
        raise RuntimeError(f"movedim: repeated dim in source or destination: {source}, {destination}")
    order = [dim for dim in range(input.ndim) if dim not in froms]
    for to, dim in sorted(zip(tos, froms, strict=True)):
        order.insert(to, dim)
    return permute(input, tuple(order)) if input.ndim else input


moveaxis, swapdims = movedim, transpose


@public(methods=True, inplace=True, view=True)
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """input with the dimensions axis0 and axis1 swapped, see ag.transpose.

    >>> ag.swapaxes(ag.ones(2, 3), 0, 1).shape
    (3, 2)
    """
    return transpose(input, axis0, axis1)
