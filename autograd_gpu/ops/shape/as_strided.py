"""as_strided: any view of a storage, by sizes, strides and an offset."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend import is_array
from ...backend.arrays import strides
from ...backend.arrays.flat_index import add_at
from ...core.extend import ALWAYS, LINEAR, Tensor, defop, public


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
        return add_at(xp, buffer, -1, [_flat_indices(xp, place, start)], x, "the gradient of as_strided")
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

    >>> from autograd_gpu.ops.shape.as_strided import restride
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
    view = _view_of_buffer(xp, buffer, source, start)
    return buffer.reshape(x.shape) if view.flags.c_contiguous and view.size == length else xp.array(view, order="C")


def _erase_batch(F, n, batched, x, *, source, target):
    return F.erase(x, *_batched_places(n, source, target))


@defop
class erase:
    """x, at `source` of a buffer, with zeros at the elements that a view of that buffer at `target` contains.

    >>> from autograd_gpu.ops.shape.as_strided import erase
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
