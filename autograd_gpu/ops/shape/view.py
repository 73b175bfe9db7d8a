"""view, unfold, as_strided."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend import is_array
from ...backend.arrays import dtypes, strides
from ...core.extend import (
    ALWAYS,
    LINEAR,
    StorageTensor,
    Tensor,
    counted_from_right,
    defop,
    every_value,
    method,
    public,
    rank,
    shares_memory,
    storage_of,
    wrap,
    wrap_codes,
)
from ..indexing.basic_index import FULL, from_right, unpacked, wrap_dim
from ..indexing.flat_index import add_at
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
    if not shares_memory(every_value(result), every_value(x)):
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
    wanted = dtypes.as_dtype(dtype)
    if isinstance(x, StorageTensor):
        codes = wrap(x._array)
        codes._storage = storage_of(x)
        x = codes
    if wanted not in dtypes.STORAGE:
        return reinterpret(x, wanted)
    codes = reinterpret(x, dtypes.uint8)
    result = wrap_codes(codes._array, wanted)
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


# ---- as_strided ----------------------------------------------------------------------------------------


def _strided_view(xp, x, *, place, origin):
    size, stride, offset = place
    buffer = strides.buffer_of(x)
    last = offset + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
    if 0 not in size and last >= buffer.size:
        raise RuntimeError(f"as_strided: sizes {list(size)}, strides {list(stride)} and storage offset {offset} reach "
                           f"element {last} of a storage of {buffer.size}")
    return strides.strided(xp, buffer[min(offset, buffer.size):], size, tuple([s * x.itemsize for s in stride]))


def _flat_indices(xp, place, start):
    """The flat indices into the buffer, counted from `start`, of the elements of a view (size, stride, offset)."""
    size, stride, offset = place
    numbers = xp.full((1,) * len(size), offset - start, "int64")
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        numbers = numbers + (xp.arange(n) * s).reshape((n,) + (1,) * (len(size) - 1 - d))
    return numbers


def _span(*places):
    """(start, length) of the part of the buffer that the views cover."""
    ends = [offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True) if (n - 1) * s * side > 0)
            for size, stride, offset in places if 0 not in size for side in (1, -1)]
    return (min(ends), max(ends) - min(ends) + 1) if ends else (0, 0)


def _has_distinct_addresses(place):
    """Whether the elements of a view certainly have distinct addresses, none before the first."""
    size, stride, _ = place
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1):
        if s <= reach:
            return False
        reach += s * (n - 1)
    return True


def _scattered(xp, x, place, start, length):
    """A buffer of `length` elements from index `start` on, with x at `place` and zeros elsewhere."""
    if x.size == length and x.flags.c_contiguous and place[1] == tuple([s // x.itemsize for s in x.strides]):
        return x.reshape(-1)
    buffer = xp.zeros(length, x.dtype)
    if not _has_distinct_addresses(place):
        return add_at(xp, buffer, -1, [_flat_indices(xp, place, start)], x)
    _view_of_buffer(xp, buffer, place, start)[...] = x
    return buffer


def _view_of_buffer(xp, buffer, place, start):
    """The view of such a buffer at `place`, whose strides are not negative."""
    size, stride, offset = place
    return strides.strided(xp, buffer[offset - start :], size, tuple([s * buffer.itemsize for s in stride]))


def _restride(xp, x, *, source, target):
    if not x.size or 0 in target[0]:
        return xp.zeros(target[0], x.dtype)
    start, length = _span(source, target)
    buffer = _scattered(xp, x, source, start, length)
    if min(target[1], default=0) < 0:
        return buffer[_flat_indices(xp, target, start)]
    return xp.array(_view_of_buffer(xp, buffer, target, start), order="C")


def _batched_places(n, *places):
    """The same place in each of n consecutive buffers."""
    start, length = _span(*places)
    return [((n, *size), (length, *stride), offset - start) for size, stride, offset in places]


def _restride_batch(F, n, batched, x, *, source, target):
    return F.restride(x, *_batched_places(n, source, target))


def _place_of(x):
    """(size, stride, offset) of a tensor or array in its buffer."""
    layout = x if is_array(x) else x._layout()
    return layout.shape, tuple([step // layout.itemsize for step in layout.strides]), strides.offset_of(layout)


def _lies_with(place, stride):
    """Whether elements at `place` have distinct addresses, and these strides."""
    size, steps, _ = place
    same = all(a == b or n == 1 for n, a, b in zip(size, steps, stride, strict=True))
    return same and 0 not in size and _has_distinct_addresses(place)


def _shows_only(place, source):
    """Whether all elements of a view at `place` are elements at `source`."""
    return np.isin(_flat_indices(np, place, 0), _flat_indices(np, source, 0)).all()


def _strided_view_jvp(F, t, place, origin):
    source, (_, steps, start) = (t.shape, *origin), _place_of(t)
    if not (_lies_with(_place_of(t), origin[0]) and _shows_only(place, source)):
        return F.restride(t, source, place)
    size, stride, offset = place  # a view of t, so that a write to it reaches t
    return F.strided_view(t, (size, stride, offset - origin[1] + start), (steps, start))


def _strided_view_batch(F, n, batched, x, *, place, origin):
    source, (_, steps, start) = (x.shape[1:], *origin), _place_of(x)
    if not _shows_only(place, source):
        raise RuntimeError("as_strided cannot be batched where it shows more of the storage than the elements of x; "
                           "use indexing or unfold")
    if not _lies_with(_place_of(x), (steps[0], *origin[0])):
        return _restride_batch(F, n, batched, x, source=source, target=place)
    size, stride, offset = place  # a view of x, so that a write to it reaches x
    return F.strided_view(x, ((n, *size), (steps[0], *stride), offset - origin[1] + start), (steps, start))


@defop
class strided_view:
    """The view at `place` = (size, stride, offset) of the buffer that holds x at `origin`; see as_strided.

    >>> ag.as_strided(ag.tensor([1.0, 2.0, 3.0]), (2, 2), (1, 1))
    tensor([[1., 2.],
            [2., 3.]])
    """

    forward = _strided_view
    def grad_x(F, g, x_shape, place, origin): return F.restride(g, place, (x_shape, *origin))
    jvp = _strided_view_jvp
    view, batch = ALWAYS, _strided_view_batch


@defop
class restride:
    """The view at `target` of a buffer of zeros to which x was added at `source`; both are (size, stride, offset).

    >>> from autograd_gpu.ops.shape.view import restride
    >>> restride(ag.ones(2, 2), ((2, 2), (1, 1), 0), ((3,), (1,), 0))
    tensor([1., 2., 1.])
    """

    forward = _restride
    def grad_x(F, g, source, target): return F.restride(g, target, source)
    jvp, batch = LINEAR, _restride_batch


def _erase(xp, x, *, source, target):
    if not x.size or 0 in target[0]:
        return xp.array(x, order="C")
    start, length = _span(source, target)
    buffer = _scattered(xp, x, source, start, length)
    if buffer.base is not None:  # x itself
        buffer = buffer.copy()
    if min((*source[1], *target[1]), default=0) < 0:
        buffer[_flat_indices(xp, target, start)] = 0
        return buffer[_flat_indices(xp, source, start)]
    _view_of_buffer(xp, buffer, target, start)[...] = 0
    found = _view_of_buffer(xp, buffer, source, start)
    return buffer.reshape(x.shape) if found.flags.c_contiguous and found.size == length else xp.array(found, order="C")


def _erase_batch(F, n, batched, x, *, source, target):
    return F.erase(x, *_batched_places(n, source, target))


@defop
class erase:
    """x, at `source` of a buffer, with zeros at the elements that a view of that buffer at `target` contains.

    >>> from autograd_gpu.ops.shape.view import erase
    >>> erase(ag.ones(2, 2), ((2, 2), (2, 1), 0), ((2,), (2,), 1))
    tensor([[1., 0.],
            [1., 0.]])
    """

    forward = _erase
    def grad_x(F, g, source, target): return F.erase(g, source, target)
    jvp, batch = LINEAR, _erase_batch


@public("as_strided", "as_strided_", methods=True, inplace=True, view=True)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The view of input's storage with these sizes, strides and offset (default: that of input), in elements.

    The gradient goes to the elements of input; other elements of the storage are constant. Under vmap the offset is
    that of the first example, and the view shows elements of its own example only. RuntimeError for a view that exceeds
    the storage, and for an input whose elements overlap (an expanded one).

    >>> ag.as_strided(ag.tensor([1.0, 2.0, 3.0, 4.0]), (2,), (2,), 1)
    tensor([2., 4.])
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)}, {list(size)}")
    if min(*stride, *size, storage_offset or 0, 0, 0) < 0:
        raise RuntimeError(f"as_strided: Negative sizes, strides and offsets are not supported, got {list(size)}, "
                           f"{list(stride)}, {storage_offset}")
    mine = input.stride()
    if 0 in mine and any(s == 0 and n > 1 for s, n in zip(mine, input.shape, strict=True)):
        raise RuntimeError("as_strided: more than one element of the input refers to a single memory location; "
                           "use .clone() first")
    start = strides.offset_of(input._layout())
    place = (size, stride, start if storage_offset is None else storage_offset)
    return strided_view(input, place, (mine, start))
