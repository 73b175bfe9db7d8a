"""Elements moved, repeated, cut out or padded: flip, roll, repeat, diagonals, triangles, pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch import defop
from ..core.tensor import Tensor
from .slicing import FULL, from_right, wrap_dim


def _as_dims(dims: Any) -> tuple[int, ...]:
    return tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)


def _unpacked(values: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments of x.flip(0, 1) or x.flip((0, 1))."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


# ---- flip, roll, repeat --------------------------------------------------------------------------------


def _flip(xp, x, *, dims):
    key = [FULL] * x.ndim
    for dim in _as_dims(dims):
        axis = wrap_dim(dim, x.ndim)
        if x.ndim:
            if key[axis] is not FULL:
                raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
            key[axis] = slice(None, None, -1)
    return xp.array(x[tuple(key)])  # a copy, as in PyTorch: writing to the result leaves x alone


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
    storage_ok = True


def flip_method(x: Tensor, *dims: Any) -> Tensor:
    """x.flip(0, 1) or x.flip((0, 1)), see ag.flip."""
    return flip(x, _unpacked(dims))


def _roll(xp, x, *, shifts, dims=None):
    if dims is None:
        return xp.roll(x, shifts)
    by, along = _as_dims(shifts), tuple([wrap_dim(dim, x.ndim) for dim in _as_dims(dims)])
    if len(by) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    return xp.roll(x, by, along)


def _roll_back(F, g, x_shape, shifts, dims):
    back = [-shift for shift in _as_dims(shifts)]
    if dims is None:
        return F.roll(g, back[0])
    return F.roll(g, back, [from_right(dim, len(x_shape)) for dim in _as_dims(dims)])


@defop
class roll:
    """x with its elements moved by `shifts` along `dims`, what leaves at one end entering at the other; without
    `dims` as if x were flat.

    >>> ag.roll(ag.tensor([1.0, 2.0, 3.0]), 1)
    tensor([3., 1., 2.])
    """

    forward = _roll
    grad_x = _roll_back
    storage_ok = True


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


@defop
class repeat:
    """x repeated `sizes[i]` times along dimension i; more sizes than dimensions add leading ones. A copy.

    >>> ag.tensor([1.0, 2.0]).repeat(2, 2)
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """

    forward = _repeat
    grad_x = _repeat_back
    storage_ok = True


def repeat_method(x: Tensor, *sizes: Any) -> Tensor:
    """x.repeat(2, 3) or x.repeat((2, 3)): x repeated 2 times along dimension 0 and 3 times along dimension 1."""
    return repeat(x, _unpacked(sizes))


def tile(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x repeated along its last dimensions; like repeat, with ones for the dimensions that `dims` does not reach.

    >>> ag.tile(ag.tensor([[1.0], [2.0]]), (2,))
    tensor([[1., 1.],
            [2., 2.]])
    """
    return repeat(x, (1,) * (x.ndim - len(dims)) + tuple(dims))


def tile_method(x: Tensor, *dims: Any) -> Tensor:
    """x.tile(2, 3) or x.tile((2, 3)), see ag.tile."""
    return tile(x, _unpacked(dims))


# ---- diagonals and triangles ---------------------------------------------------------------------------


def _diagonal(xp, x, *, offset=0, dim1=0, dim2=1):
    if wrap_dim(dim1, x.ndim) == wrap_dim(dim2, x.ndim):
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    out = x.diagonal(offset, dim1, dim2)
    if xp is np:
        out.flags.writeable = x.flags.writeable  # NumPy alone makes it read-only
    return out


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
    view = True
    storage_ok = True


def _diagonal_backward(xp, g, *, shape, offset=0, dim1=0, dim2=1):
    out = xp.zeros(shape, g.dtype)
    _diagonal(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = g
    return out


@defop
class diagonal_backward:
    """Zeros of `shape` with g on the diagonal: the transpose of diagonal.

    >>> from autograd_gpu.ops.rearrange import diagonal_backward
    >>> diagonal_backward(ag.tensor([1.0, 4.0]), (2, 2))
    tensor([[1., 0.],
            [0., 4.]])
    """

    forward = _diagonal_backward
    def grad_g(F, g, offset, dim1, dim2): return F.diagonal(g, offset, dim1, dim2)


def _triangle(xp, name, x, diagonal):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    return getattr(xp, name)(x, diagonal)


@defop
class tril:
    """The lower triangle of a matrix, or of each in a batch; zeros above diagonal number `diagonal`.

    >>> ag.tril(ag.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """

    def forward(xp, x, *, diagonal=0): return _triangle(xp, "tril", x, diagonal)
    def grad_x(F, g, diagonal): return F.tril(g, diagonal)


@defop
class triu:
    """The upper triangle of a matrix, or of each in a batch; zeros below diagonal number `diagonal`.

    >>> ag.triu(ag.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """

    def forward(xp, x, *, diagonal=0): return _triangle(xp, "triu", x, diagonal)
    def grad_x(F, g, diagonal): return F.triu(g, diagonal)


# ---- pad -----------------------------------------------------------------------------------------------


def _inside(shape, pad):
    """The key of the part of a padded array that holds the original of `shape`; `pad` goes by (before, after) pairs
    from the last dimension on."""
    pairs = zip(pad[::2], reversed(shape), strict=False)
    return (..., *reversed([slice(before, before + size) for before, size in pairs]))


def _constant_pad(xp, x, *, pad, value=0.0):
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise RuntimeError("Padding length must be divisible by 2 and at most twice the number of dimensions of the "
                           f"input. Padding length: {len(pad)}. Input dimensions: {x.ndim}")
    if any(size < 0 for size in pad):
        raise RuntimeError(f"pad: negative padding {list(pad)} is not supported; crop with narrow or a slice")
    shape = list(x.shape)
    for i in range(len(pad) // 2):
        shape[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    out = xp.full(shape, value, x.dtype)
    out[_inside(x.shape, pad)] = x
    return out


@defop
class constant_pad:
    """x with `value` around it: pad[0] before and pad[1] after along the last dimension, pad[2] and pad[3] along
    the one before it, and so on.

    >>> ag.pad(ag.ones(2), (1, 0))
    tensor([0., 1., 1.])
    """

    forward = _constant_pad
    def grad_x(F, g, x_shape, pad): return F.basic_index(g, _inside(x_shape, pad))


def pad(x: Tensor, pad: tuple[int, ...], mode: str = "constant", value: float | None = None) -> Tensor:
    """x with `value` (default 0) around it: pad[0] before and pad[1] after along the last dimension, and so on.

    Only `mode="constant"`; NotImplementedError for the others, RuntimeError for negative padding.

    >>> ag.pad(ag.ones(1, 1), (1, 0), value=5.0)
    tensor([[5., 1.]])
    """
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not supported; only 'constant' is")
    return constant_pad(x, tuple(pad), 0.0 if value is None else value)
