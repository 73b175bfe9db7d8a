"""view and unfold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays import dtypes, strides
from ...core.extend import (
    ALWAYS,
    LINEAR,
    Float8Tensor,
    Tensor,
    counted_from_right,
    defop,
    method,
    rank,
    shares_memory,
    storage_of,
    wrap,
    wrap_codes,
)
from ..indexing.basic_index import FULL, from_right, unpacked, wrap_dim
from .reshape import reshape

# ---- view ----------------------------------------------------------------------------------------------


@method("view")
def view_method(x: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """x.view(2, 3) or x.view((2, 3)): the same memory in another shape; RuntimeError if that needs a copy.
    x.view(dtype): the same bytes read as another dtype, not differentiable.

    >>> ag.ones(2, 3).view(3, 2).shape
    (3, 2)
    >>> ag.tensor([1.0]).view(ag.int32)
    tensor([1065353216], dtype=int32)
    """
    if len(shape) == 1 and isinstance(shape[0], np.dtype):
        dtype = shape[0]
        shape = ()
    if dtype is not None:
        if shape or size is not None:
            raise TypeError("view() takes a shape or a dtype, not both; view twice")
        return view_as_dtype(x, dtype)
    result = reshape(x, unpacked(shape, size))
    if not shares_memory(result._every_value(), x._every_value()):
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension "
                           "spans across two contiguous subspaces). Use .reshape(...) instead.")
    return result


@method()
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """The view of x in the shape of `other`; RuntimeError if that needs a copy.

    >>> ag.ones(2, 3).view_as(ag.ones(3, 2)).shape
    (3, 2)
    """
    return view_method(x, other.shape)


@method()
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the shape of `other`; a view if the strides allow it.

    >>> ag.ones(2, 3).mT.reshape_as(ag.ones(6)).shape
    (6,)
    """
    return reshape(x, other.shape)


def _reinterpret(xp, x, *, dtype):
    size = dtype.itemsize
    if size != x.itemsize:
        to_view = f"to view {x.dtype} as {dtype} (different element sizes)"
        if x.ndim == 0:
            raise RuntimeError(f"self.dim() cannot be 0 {to_view}")
        if x.shape[-1] > 1 and x.size and x.strides[-1] != x.itemsize:
            raise RuntimeError(f"self.stride(-1) must be 1 {to_view}, but got {x.strides[-1] // x.itemsize}")
        if x.shape[-1] * x.itemsize % size:
            raise RuntimeError(f"self.size(-1) must be divisible by {size // x.itemsize} {to_view}, "
                               f"but got {x.shape[-1]}")
        if strides.address(x) % size or any(stride % size for stride in x.strides[:-1]):
            raise RuntimeError(f"self.storage_offset() and self.stride() must be divisible by {size // x.itemsize} "
                               f"{to_view}; use .clone() first")
    return x.view(dtype)


def _reinterpret_batch(F, n, batched, x, *, dtype):
    if not rank(x, True):
        _reinterpret(np, np.empty((), x.dtype), dtype=dtype)  # raises for another element size
    return F.reinterpret(x, dtype)


@defop
class reinterpret:
    """The bytes of x as numbers of another dtype; x.view(dtype).

    >>> ag.tensor([1.0, -1.0]).view(ag.int32) < 0
    tensor([False,  True])
    """

    forward = _reinterpret
    nondiff = True
    view, batch = ALWAYS, _reinterpret_batch


def view_as_dtype(x: Tensor, dtype: np.dtype) -> Tensor:
    target = dtypes.as_dtype(dtype)
    if isinstance(x, Float8Tensor):
        codes = wrap(x._array)
        codes._storage = storage_of(x)
        x = codes
    if target not in dtypes.STORAGE:
        return reinterpret(x, target)
    codes = reinterpret(x, dtypes.uint8)
    result = wrap_codes(codes._array, target)
    result._storage = codes._storage
    return result


# ---- unfold --------------------------------------------------------------------------------------------


def _count(length, at, size, step):
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {at} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return (length - size) // step + 1


def _unfold(xp, x, *, dimension, size, step):
    at = wrap_dim(dimension, x.ndim)
    if not x.ndim:
        _count(1, at, size, step)
        return x.reshape(1)[:size]
    count, along = _count(x.shape[at], at, size, step), x.strides[at]
    shape = (*x.shape[:at], count, *x.shape[at + 1 :], size)
    return strides.strided(xp, x, shape, (*x.strides[:at], along * step, *x.strides[at + 1 :], along))


def _unfold_backward(xp, g, *, shape, dimension, size, step):
    out = xp.zeros(shape, dtypes.float32 if g.dtype in dtypes.HALF else g.dtype)
    if not shape:
        out[...] = g.sum()  # of one element or none
        return out.astype(g.dtype, copy=False)
    at = wrap_dim(dimension, len(shape))
    lead, count = (FULL,) * at, g.shape[at]
    if count < size:  # by windows, else by positions
        for i in range(count):
            out[(*lead, slice(i * step, i * step + size))] += xp.moveaxis(g[(*lead, i)], -1, at)
    else:
        for i in range(size):
            out[(*lead, slice(i, i + (count - 1) * step + 1, step))] += g[..., i]
    return out.astype(g.dtype, copy=False)


def _unfold_batch(F, n, batched, x, *, dimension, size, step):
    dimension = counted_from_right(dimension, rank(x, True))
    if rank(x, True):
        return F.unfold(x, dimension, size, step)
    return F.basic_index(F.unfold(F.reshape(x, (n, 1)), dimension, size, step), (FULL, 0))


def _unfold_backward_batch(F, n, batched, g, *, shape, dimension, size, step):
    if not shape:
        return F.sum(g, -1)
    return F.unfold_backward(g, (n, *shape), counted_from_right(dimension, len(shape)), size, step)


@defop
class unfold:
    """The windows of `size` elements, `step` apart, along `dimension`, as a new last dimension. A view.

    >>> ag.tensor([1.0, 2.0, 3.0, 4.0]).unfold(0, 2, 1)
    tensor([[1., 2.],
            [2., 3.],
            [3., 4.]])
    """

    forward = _unfold
    def grad_x(F, g, x_shape, dimension, size, step):
        return F.unfold_backward(g, x_shape, from_right(dimension, len(x_shape)), size, step)
    view = ALWAYS
    storage_ok = True
    jvp, batch = LINEAR, _unfold_batch
    methods = "unfold"


@defop
class unfold_backward:
    """The sum over the windows that contain each element of `shape`: the transpose of unfold.

    >>> from autograd_gpu.ops.shape.view import unfold_backward
    >>> unfold_backward(ag.ones(3, 2), (4,), 0, 2, 1)
    tensor([1., 2., 2., 1.])
    """

    forward = _unfold_backward
    def grad_g(F, g, dimension, size, step): return F.unfold(g, dimension, size, step)
    jvp, batch = LINEAR, _unfold_backward_batch
