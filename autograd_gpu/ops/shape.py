"""Shapes: broadcasting, reshaping and reordering of dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import backend
from ..core.dispatch import defop
from ..core.tensor import Tensor
from ..core.views import shares_memory
from .slicing import from_right, wrap_dim


def _sizes(values: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments of x.reshape(2, 3) or x.reshape((2, 3))."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def common_shape(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `a` and `b` broadcast to; RuntimeError that names the op `name` if they do not."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise RuntimeError(f"{name}: shapes {list(a)} and {list(b)} do not broadcast") from None


# ---- broadcasting and its transpose --------------------------------------------------------------------


def _expanded(x, shape):
    """`shape` with every -1 replaced by the size that it keeps; RuntimeError if x does not fit."""
    lead = len(shape) - x.ndim
    if lead < 0:
        raise RuntimeError(f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the "
                           f"number of dimensions in the tensor ({x.ndim})")
    sizes = list(shape)
    for i, size in enumerate(shape):
        held = x.shape[i - lead] if i >= lead else None
        if size < 0 and held is None:
            raise RuntimeError(f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing "
                               f"dimension {i}")
        if size == -1:
            sizes[i] = held
        elif held is not None and held not in (1, size):
            raise RuntimeError(f"The expanded size of the tensor ({size}) must match the existing size ({held}) at "
                               f"non-singleton dimension {i}.  Target sizes: {list(shape)}.  "
                               f"Tensor sizes: {list(x.shape)}")
    return tuple(sizes)


def _expand(xp, x, *, shape):
    return x if x.shape == shape else backend.broadcast_to(xp, x, _expanded(x, shape))


@defop
class expand:
    """x stretched to `shape` without copying: dimensions of size 1 repeat, new ones come first, -1 keeps a size.

    >>> ag.expand(ag.tensor([[1.0], [2.0]]), (-1, 2))
    tensor([[1., 1.],
            [2., 2.]])
    """

    forward = _expand
    def grad_x(F, g, x_shape): return F.sum_to(g, x_shape)
    view = True
    storage_ok = True


@defop
class sum_to:
    """Sums x over the dimensions that broadcasting from `shape` would add or stretch: the transpose of expand.

    >>> ag.sum_to(ag.ones(3, 2), (1, 2))
    tensor([[3., 3.]])
    """

    def forward(xp, x, *, shape): return backend.sum_to(x, shape)
    def grad_x(F, g, x_shape): return F.expand(g, x_shape)
    view = True


def expand_method(x: Tensor, *shape: Any) -> Tensor:
    """x.expand(2, 3) or x.expand((2, 3)), see ag.expand."""
    return expand(x, _sizes(shape))


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x stretched to `shape` without copying.

    >>> ag.broadcast_to(ag.tensor([1.0]), (2,))
    tensor([1., 1.])
    """
    return expand(x, tuple(shape))


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x stretched to the shape of `other` without copying."""
    return expand(x, other.shape)


# ---- reshaping -----------------------------------------------------------------------------------------


def _reshape(xp, x, *, shape):
    try:
        out = x.reshape(shape)
    except ValueError:
        raise RuntimeError(_misfit(x, shape)) from None
    if out.shape != shape and min(shape, default=0) < -1:  # to NumPy every negative number is a -1
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    return out


def _misfit(x, shape):
    if list(shape).count(-1) > 1:
        return "only one dimension can be inferred"
    if -1 in shape and 0 in shape and x.size == 0:
        return (f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous")
    return f"shape '{list(shape)}' is invalid for input of size {x.size}"


@defop
class reshape:
    """x in another shape of as many elements, one of them may be -1; a view where the strides allow it.

    >>> ag.reshape(ag.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1))
    tensor([[1., 2.],
            [3., 4.]])
    """

    forward = _reshape
    def grad_x(F, g, x_shape): return F.reshape(g, x_shape)
    view = True
    storage_ok = True


def reshape_method(x: Tensor, *shape: Any) -> Tensor:
    """x.reshape(2, 3) or x.reshape((2, 3)), see ag.reshape."""
    return reshape(x, _sizes(shape))


def view_method(x: Tensor, *shape: Any) -> Tensor:
    """The view of x in another shape; RuntimeError where that would need a copy.

    >>> ag.ones(2, 3).view(3, 2).shape
    (3, 2)
    """
    result = reshape(x, _sizes(shape))
    if not shares_memory(result._array, x._array):
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension "
                           "spans across two contiguous subspaces). Use .reshape(...) instead.")
    return result


def ravel(x: Tensor) -> Tensor:
    """x as one dimension.

    >>> ag.ravel(ag.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    return reshape(x, (-1,))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """x with the dimensions from `start_dim` to `end_dim`, both included, as one.

    >>> ag.flatten(ag.ones(2, 3, 4), 1).shape
    (2, 12)
    """
    start, end = wrap_dim(start_dim, x.ndim), wrap_dim(end_dim, x.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and x.ndim:
        return x
    shape = x.shape
    return reshape(x, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def unflatten(x: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """x with dimension `dim` split into `sizes`, one of which may be -1.

    >>> ag.unflatten(ag.ones(6, 2), 0, (2, -1)).shape
    (2, 3, 2)
    """
    dim = wrap_dim(dim, x.ndim)
    known = math.prod(size for size in sizes if size != -1)
    fits = x.shape[dim] == known if -1 not in sizes else known and x.shape[dim] % known == 0
    if not fits:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
                           f"({x.shape[dim]}) in the input tensor")
    sizes = tuple(x.shape[dim] // known if size == -1 else size for size in sizes)
    return reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def _squeezed(xp, x, *, dim=None):
    if dim is None:
        return x.reshape([size for size in x.shape if size != 1])
    dims = {wrap_dim(d, x.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))}
    return x.reshape([size for i, size in enumerate(x.shape) if size != 1 or i not in dims])


def _unsqueezed(xp, x, *, dim):
    at = wrap_dim(dim, x.ndim + 1)
    return x.reshape((*x.shape[:at], 1, *x.shape[at:]))


@defop
class squeeze:
    """x without its dimensions of size 1: all of them, or those named by `dim`, an int or a tuple. A view.

    >>> ag.squeeze(ag.ones(1, 2, 1)).shape
    (2,)
    """

    forward = _squeezed
    def grad_x(F, g, x_shape): return F.reshape(g, x_shape)
    view = True
    storage_ok = True


@defop
class unsqueeze:
    """x with a new dimension of size 1 at `dim`. A view.

    >>> ag.unsqueeze(ag.ones(2), -1).shape
    (2, 1)
    """

    forward = _unsqueezed
    def grad_x(F, g, x_shape, dim): return F.squeeze(g, from_right(dim, len(x_shape) + 1))
    view = True
    storage_ok = True


# ---- reordering ----------------------------------------------------------------------------------------


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
    view = True
    storage_ok = True


def _transpose(xp, x, *, dim0, dim1):
    try:
        return x.swapaxes(dim0, dim1)
    except ValueError:  # a 0-d array has no axis 0, a 0-d tensor has
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
    view = True
    storage_ok = True


def _matrix_transpose(xp, x):
    if x.ndim < 2:
        raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. "
                           f"Got {x.ndim}-D tensor.")
    return x.swapaxes(-1, -2)


@defop
class mT:
    """x with its last two dimensions swapped. A view.

    >>> ag.ones(5, 2, 3).mT.shape
    (5, 3, 2)
    """

    forward = _matrix_transpose
    def grad_x(F, g): return F.mT(g)
    view = True
    storage_ok = True


def permute_method(x: Tensor, *dims: Any) -> Tensor:
    """x.permute(1, 0) or x.permute((1, 0)), see ag.permute."""
    return permute(x, _sizes(dims))


def transpose_all(x: Tensor) -> Tensor:
    """x with its dimensions in reverse order. A view."""
    return permute(x, tuple(range(x.ndim - 1, -1, -1)))


def t(x: Tensor) -> Tensor:
    """The transpose of a matrix; a vector or 0-d tensor as it is.

    >>> ag.t(ag.ones(2, 3)).shape
    (3, 2)
    """
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return transpose_all(x)


def movedim(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """x with the dimensions `source` moved to the places `destination`; the others keep their order. A view.

    >>> ag.movedim(ag.ones(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    sources = (source,) if isinstance(source, int) else source
    targets = (destination,) if isinstance(destination, int) else destination
    if len(sources) != len(targets):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({list(sources)}) should contain "
                           f"the same number of dims as destination ({list(targets)})")
    froms, tos = [wrap_dim(dim, x.ndim) for dim in sources], [wrap_dim(dim, x.ndim) for dim in targets]
    if len(set(froms)) < len(froms) or len(set(tos)) < len(tos):
        raise RuntimeError(f"movedim: repeated dim in source or destination: {source}, {destination}")
    if x.ndim == 0:
        return x
    order = [dim for dim in range(x.ndim) if dim not in froms]
    for to, dim in sorted(zip(tos, froms, strict=True)):
        order.insert(to, dim)
    return permute(x, tuple(order))
