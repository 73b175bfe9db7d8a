"""Broadcasting and reshaping."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend, errors
from ...core.extend import ALWAYS, LINEAR, Tensor, counted_from_right, defop, example, method, other_words, public, rank
from ..indexing.basic_index import from_right, unpacked, wrap_dim


def common_shape(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `a` and `b` broadcast to; RuntimeError that names the op `name` if they do not."""
    if a == b:
        return a
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise RuntimeError(f"{name}: {errors.sizes_differ([a, b])}") from None


# ---- broadcasting and its transpose --------------------------------------------------------------------


def _expanded(x, shape):
    """`shape` with every -1 replaced by x's size; RuntimeError if x does not expand to it."""
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
    if x.shape == shape:
        return x
    try:
        return backend.broadcast_to(xp, x, _expanded(x, shape) if -1 in shape else shape)
    except ValueError:
        _expanded(x, shape)  # raises the error
        raise


def _expand_batch(F, n, batched, x, *, shape):
    sizes = _expanded(example(x), shape)
    missing = len(sizes) - rank(x, True)
    return F.expand(F.reshape(x, (n, *(1,) * missing, *x.shape[1:])) if missing else x, (n, *sizes))


@defop
class expand:
    """x expanded to `shape` without copying: dimensions of size 1 repeat, new ones come first, -1 keeps a size.

    >>> ag.expand(ag.tensor([[1.0], [2.0]]), (-1, 2))
    tensor([[1., 1.],
            [2., 2.]])
    """

    forward = _expand
    def grad_x(F, g, x_shape): return F.sum_to(g, x_shape)
    view = ALWAYS
    storage_ok = True
    jvp, batch = LINEAR, _expand_batch
    public = True


def _sum_to_batch(F, n, batched, x, *, shape):
    missing = rank(x, True) - len(shape)
    out = F.sum_to(x, (n, *(1,) * missing, *shape))
    return F.reshape(out, (n, *shape)) if missing else out


@defop
class sum_to:
    """x summed over the dimensions that expanding from `shape` adds or repeats: the transpose of expand.

    >>> ag.sum_to(ag.ones(3, 2), (1, 2))
    tensor([[3., 3.]])
    """

    def forward(xp, x, *, shape): return backend.sum_to(x, shape)
    def grad_x(F, g, x_shape): return F.expand(g, x_shape)
    view = True
    jvp, batch = LINEAR, _sum_to_batch
    public = methods = True


@method("expand")
def expand_method(x: Tensor, *shape: Any, size: Any = None) -> Tensor:
    """x.expand(2, 3) or x.expand((2, 3)), see ag.expand."""
    return expand(x, unpacked(shape, size))


@public(methods=True)
def broadcast_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """input expanded to `size` without copying.

    >>> ag.broadcast_to(ag.tensor([1.0]), (2,))
    tensor([1., 1.])
    """
    return expand(input, tuple(size))


@public(methods=True)
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x expanded to the shape of `other` without copying."""
    return expand(x, other.shape)


# ---- reshaping -----------------------------------------------------------------------------------------


def _reshape(xp, x, *, shape):
    try:
        out = x.reshape(shape)
    except ValueError:
        raise RuntimeError(_misfit(x, shape)) from None
    if isinstance(shape, int):
        raise TypeError("reshape(): argument 'shape' (position 2) must be tuple of ints, not int")
    if out.shape != shape and -1 not in shape and min(shape, default=0) < 0:  # NumPy takes any negative number as -1
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
    """x in another shape with as many elements; one size may be -1. A view if the strides allow it.

    >>> ag.reshape(ag.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1))
    tensor([[1., 2.],
            [3., 4.]])
    """

    forward = _reshape
    def grad_x(F, g, x_shape): return F.reshape(g, x_shape)
    view = True
    storage_ok = True
    def batch(F, n, batched, x, *, shape): return F.reshape(x, (n, *_reshape(np, example(x), shape=shape).shape))
    jvp = LINEAR
    public = True


@method("reshape")
def reshape_method(x: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """x.reshape(2, 3) or x.reshape((2, 3)), see ag.reshape."""
    return reshape(x, unpacked(sizes, shape))


@public(methods=True)
def ravel(input: Tensor) -> Tensor:
    """input as one dimension.

    >>> ag.ravel(ag.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    return reshape(input, (-1,))


@public(methods=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """input with the dimensions from `start_dim` to `end_dim`, both included, as one.

    >>> ag.flatten(ag.ones(2, 3, 4), 1).shape
    (2, 12)
    """
    if start_dim == 0 and end_dim == -1 and input.ndim != 1:
        return reshape(input, (-1,))
    start, end = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and input.ndim:
        return input
    shape = input.shape
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@public(methods=True)
@other_words
def unflatten(input: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """input with dimension `dim` split into `sizes`, one of which may be -1.

    >>> ag.unflatten(ag.ones(6, 2), 0, (2, -1)).shape
    (2, 3, 2)
    """
    shape = input.shape
    dim = wrap_dim(dim, len(shape))
    if -1 not in sizes and shape and shape[dim] == math.prod(sizes):
        return reshape(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))
    known = -math.prod(sizes)  # of the sizes other than -1
    if not shape or list(sizes).count(-1) != 1 or known <= 0 or shape[dim] % known:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
                           f"({shape[dim] if shape else 1}) in the input tensor")
    return reshape(input, (*shape[:dim], *[shape[dim] // known if n == -1 else n for n in sizes], *shape[dim + 1 :]))


def _squeezed(xp, x, *, dim=None):
    if dim is None:
        return x if 1 not in x.shape else x.reshape([size for size in x.shape if size != 1])
    if type(dim) is int:
        at, shape = wrap_dim(dim, x.ndim), x.shape
        return x.reshape(shape[:at] + shape[at + 1 :]) if shape and shape[at] == 1 else x
    dims = [wrap_dim(d, x.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"dim {max(dims, key=dims.count)} appears multiple times in the list of dims")
    return x.reshape([size for i, size in enumerate(x.shape) if size != 1 or i not in dims])


def _unsqueezed(xp, x, *, dim):
    if dim == 0:
        return x[None]
    at, shape = wrap_dim(dim, x.ndim + 1), x.shape
    return x.reshape((*shape[:at], 1, *shape[at:]))


@defop
class squeeze:
    """x without its dimensions of size 1: all of them, or those in `dim`, an int or a tuple. A view.

    >>> ag.squeeze(ag.ones(1, 2, 1)).shape
    (2,)
    """

    forward = _squeezed
    def grad_x(F, g, x_shape): return F.reshape(g, x_shape)
    view = ALWAYS
    storage_ok = True
    def batch(F, n, batched, x, *, dim): return F.reshape(x, (n, *_squeezed(np, example(x), dim=dim).shape))
    jvp = LINEAR
    public = methods = inplace = True


@defop
class unsqueeze:
    """x with a new dimension of size 1 at `dim`. A view.

    >>> ag.unsqueeze(ag.ones(2), -1).shape
    (2, 1)
    """

    forward = _unsqueezed
    def grad_x(F, g, x_shape, dim): return F.squeeze(g, from_right(dim, len(x_shape) + 1))
    view = ALWAYS
    storage_ok = True
    def batch(F, n, batched, x, *, dim): return F.unsqueeze(x, counted_from_right(dim, x.ndim))
    jvp = LINEAR
    public = methods = inplace = True
