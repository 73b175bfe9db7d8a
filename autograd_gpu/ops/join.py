"""Tensors joined along a dimension, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import defop
from ..core.op import PROMOTE
from ..core.tensor import Tensor
from .shape import reshape
from .slicing import FULL, from_right, key_along, wrap_dim

# ---- joining -------------------------------------------------------------------------------------------


def _cat(xp, *tensors, dim=0):
    try:
        return xp.concatenate(tensors, dim)
    except ValueError:
        kept = [x for x in tensors if x.shape != (0,)] or tensors  # PyTorch skips empty vectors among others
        if len(kept) < len(tensors):
            return _cat(xp, *kept, dim=dim)
        raise _misfit(tensors, dim) from None


def _misfit(tensors, dim):
    shapes = [x.shape for x in tensors]
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


def _cat_part(F, g, i, dim, tensors_shape):
    ndim = max(map(len, tensors_shape))
    dim = from_right(dim, ndim)
    sizes = [shape[dim] if len(shape) == ndim else 0 for shape in tensors_shape[: i + 1]]
    end = sum(sizes)
    part = F.basic_index(g, key_along(dim, slice(end - sizes[-1], end)))
    return part if len(tensors_shape[i]) == ndim else F.reshape(part, (0,))


@defop
class cat:
    """The tensors one after the other along dimension `dim`; their other sizes must agree.

    >>> ag.cat([ag.tensor([1.0]), ag.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """

    def forward(xp, *tensors, dim=0): return _cat(xp, *tensors, dim=dim)
    grad_tensors = _cat_part
    types = PROMOTE
    storage_ok = True


def _stack(xp, *tensors, dim=0):
    shape = tensors[0].shape
    at = wrap_dim(dim, len(shape) + 1)
    for i, x in enumerate(tensors):
        if x.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                               f"{list(x.shape)} at entry {i}")
    expanded = (*shape[:at], 1, *shape[at:])
    return xp.concatenate([x.reshape(expanded) for x in tensors], at)


@defop
class stack:
    """The tensors, all of one shape, along a new dimension `dim`.

    >>> ag.stack([ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])], 1)
    tensor([[1., 3.],
            [2., 4.]])
    """

    def forward(xp, *tensors, dim=0): return _stack(xp, *tensors, dim=dim)
    def grad_tensors(F, g, i, dim, tensors_shape):
        return F.basic_index(g, key_along(from_right(dim, len(tensors_shape[0]) + 1), i))
    types = PROMOTE
    storage_ok = True


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along dimension 0.

    >>> ag.hstack([ag.ones(2, 1), ag.zeros(2, 1)])
    tensor([[1., 0.],
            [1., 0.]])
    """
    raised = [x if x.ndim else reshape(x, (1,)) for x in tensors]
    return cat(raised, 0 if raised and raised[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one below the other: along dimension 0, vectors as rows.

    >>> ag.vstack([ag.ones(2), ag.zeros(2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    return cat([x if x.ndim > 1 else reshape(x, (1, -1)) for x in tensors], 0)


# ---- taking apart --------------------------------------------------------------------------------------


def _split(xp, x, *, sizes, dim=0):
    if x.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    at = wrap_dim(dim, x.ndim)
    if sum(sizes) != x.shape[at] or min(sizes, default=0) < 0:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {x.shape[at]} (input tensor's size "
                           f"at dimension {at}), but got split_sizes={list(sizes)}")
    lead, parts, start = (FULL,) * at, [], 0
    for size in sizes:
        parts.append(x[(*lead, slice(start, start + size))])
        start += size
    return parts


def _split_back(F, g, x_shape, sizes, dim):
    """The gradients joined; one that is missing becomes padding of the next one, or of the last."""
    dim = from_right(dim, len(x_shape))
    lead = (0, 0) * (-1 - dim)
    parts, before = [], 0
    for i, part in enumerate(g):
        if part is None:
            before += sizes[i]
            continue
        if before:
            part = F.constant_pad(part, (*lead, before, 0))
            before = 0
        parts.append(part)
    if before:
        parts[-1] = F.constant_pad(parts[-1], (*lead, 0, before))
    return F.cat(parts, dim) if len(parts) > 1 else parts[0]


@defop
class split_with_sizes:
    """x cut along `dim` into views of the given sizes.

    >>> from autograd_gpu.ops.join import split_with_sizes
    >>> split_with_sizes(ag.tensor([1.0, 2.0, 3.0]), (1, 2))
    (tensor([1.]), tensor([2., 3.]))
    """

    forward = _split
    grad_x = _split_back
    outputs, view = ("*",), True
    storage_ok = True


def split(x: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """x cut along `dim` into views of the given size (the last may be smaller), or of the given sizes.

    >>> ag.split(ag.tensor([1.0, 2.0, 3.0]), 2)
    (tensor([1., 2.]), tensor([3.]))
    """
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(x, tuple(split_size_or_sections), dim)
    step = split_size_or_sections
    if x.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    length = x.shape[wrap_dim(dim, x.ndim)]
    if step < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
    if step == 0 and length:
        raise RuntimeError("split_size can only be 0 if dimension size is 0, but got dimension size of "
                           f"{length}")
    starts = range(0, length, step) if length else (0,)
    return split_with_sizes(x, tuple(min(step, length - start) for start in starts), dim)


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """x cut along `dim` into at most `chunks` views of equal size, the last may be smaller.

    >>> ag.chunk(ag.tensor([1.0, 2.0, 3.0]), 2)
    (tensor([1., 2.]), tensor([3.]))
    """
    if x.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    length = x.shape[wrap_dim(dim, x.ndim)]
    if not length:
        return split_with_sizes(x, (0,) * chunks, dim)
    return split(x, -(-length // chunks), dim)


def _unbind(xp, x, *, dim=0):
    if x.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    at = wrap_dim(dim, x.ndim)
    lead = (FULL,) * at
    return [x[(*lead, i, ...)] for i in range(x.shape[at])]


def _unbind_back(F, g, x_shape, dim):
    given = next(part for part in g if part is not None)
    parts = [F.constant_like(given, 0.0) if part is None else part for part in g]
    return F.stack(parts, from_right(dim, len(x_shape)))


@defop
class unbind:
    """The views of x at each position of dimension `dim`, which is dropped.

    >>> ag.unbind(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 2.]), tensor([3., 4.]))
    """

    forward = _unbind
    grad_x = _unbind_back
    outputs, view = ("*",), True

    storage_ok = True
