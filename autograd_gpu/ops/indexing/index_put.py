"""Writes at indices, out of place: index_put, index_copy, index_fill, index_add, put, select_scatter, slice_scatter;
and take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import FULL_FLOATS, bool_, fitting, int32, int64
from ...backend.arrays.flat_index import add_at
from ...backend.cuda import exact
from ...core.extend import (
    LINEAR,
    RECORD,
    SAME,
    Tensor,
    aligned,
    bump_version,
    defop,
    example,
    expanded,
    method,
    one_by_one,
    other_words,
    public,
    rank,
    wrap,
)
from ..creation.convert import to
from ..creation.factories import zeros
from ..inplace.record import check_writable, in_place, is_recorded
from ..shape.reshape import reshape
from .basic_index import FULL, assigned, basic_set, key_along, select_key, wrap_dim
from .batched_key import BatchedKey
from .index import (
    MOST,
    advanced_index,
    advanced_key,
    advanced_sums,
    flat_index_of,
    index_error_text,
    index_vector,
    key_part,
    not_none,
    simple_key,
    split_key,
)

# ---- at index tensors ----------------------------------------------------------------------------------


def _advanced_set(xp, x, values, i0, i1=None, i2=None, i3=None, *, dims):
    out = xp.array(x)
    out[advanced_key(x.ndim, dims, not_none(i0, i1, i2, i3))] = exact.assignable(values, out)
    return out


def _over(F: Any, mask: Any, dims: tuple[int, ...], is_batched: bool = False) -> Any:
    """A mask of the dimensions from dims[0] < 0 on as one that broadcasts against all."""
    more = -dims[0] - rank(mask, is_batched)
    return F.reshape(mask, (*mask.shape, *(1,) * more)) if more else mask


def _picked(F, g, values_shape, i0, i1, i2, i3, dims):
    """The gradient of `values`, which may have been broadcast."""
    if not values_shape and i1 is None and i0.dtype == bool_:
        return F.sum(F.where(_over(F, i0, dims), g, 0.0))  # also for a batch of masks
    grad = F.advanced_index(g, i0, i1, i2, i3, dims=dims)
    return grad if grad.shape == values_shape else assigned(F, grad, values_shape)


def _in_examples(F, op, name, n, batched, x, values, indices, dims):
    """advanced_set or advanced_add, `op`, on a batch of n."""
    theirs = batched[2 : 2 + len(indices)]
    if any(theirs) and len(indices) == MOST:  # together with the batch indices they would be too many
        def run(x, values, *indices): return op(x, values, *indices, dims=dims)
        return one_by_one(F, name, run, n, (*batched[:2], *theirs), (x, values, *indices))
    [x] = expanded(F, n, batched[:1], [x])
    key = BatchedKey(F, name, n, rank(x, True), dims, indices, theirs, True)
    if hasattr(values, "shape"):
        if (more := rank(values, batched[1]) - key.ndim) > 0:  # dimensions of size 1
            values = F.reshape(values, (*values.shape[: batched[1]], *values.shape[batched[1] + more :]))
        values = key.as_selected(F, values, n, batched[1])
    return op(x, values, *key.indices, dims=key.dims)


def _advanced_set_batch(F, n, batched, x, values, i0, i1, i2, i3, *, dims):
    one = not hasattr(values, "shape") or not rank(values, batched[1])
    if i1 is None and batched[2] and i0.dtype == bool_ and one:
        return filled(F, (batched[0], True, batched[1]), x, _over(F, i0, dims, True), values)
    return _in_examples(F, F.advanced_set, "advanced_set", n, batched, x, values, not_none(i0, i1, i2, i3), dims)


def filled(F: Any, batched: Sequence[bool], x: Any, mask: Any, value: Any) -> Any:
    """A batch of x with the number or 0-d tensor `value` where `mask` is True; the three broadcast."""
    x, mask, value = aligned(F, batched, (x, mask, value))
    return F.where(mask, F.cast(value, x.dtype), x) if batched[2] else F.masked_fill(x, mask, value)


@defop
class advanced_set:
    """A copy of x with `values`, a number or broadcasting, at [..., i0, ...]; tensors and `dims` as in advanced_index.

    >>> from autograd_gpu.ops.indexing.index_put import advanced_set
    >>> advanced_set(ag.zeros(3), ag.tensor([5.0, 6.0]), ag.tensor([2, 0]), dims=(-1,))
    tensor([6., 0., 5.])
    """

    forward = _advanced_set
    def grad_x(F, g, i0, i1, i2, i3, dims): return F.advanced_set(g, 0.0, i0, i1, i2, i3, dims=dims)
    grad_values = _picked
    jvp, batch = LINEAR, _advanced_set_batch
    integral, promoted = ("i0", "i1", "i2", "i3"), ("x", "values")
    types, numbers, selects_only = SAME, True, True


def _advanced_add(xp, x, values, i0, i1=None, i2=None, i3=None, *, dims):
    return advanced_sums(xp, xp.array(x, order="C"), not_none(i0, i1, i2, i3), dims, values)


def _advanced_add_jvp(F, t, x, i0, i1, i2, i3, dims):
    if t[1] is None:
        return t[0]
    return F.advanced_add(F.constant_like(x, 0.0) if t[0] is None else t[0], t[1], i0, i1, i2, i3, dims=dims)


def _advanced_add_batch(F, n, batched, x, values, i0, i1, i2, i3, *, dims):
    return _in_examples(F, F.advanced_add, "advanced_add", n, batched, x, values, not_none(i0, i1, i2, i3), dims)


@defop
class advanced_add:
    """x plus `values`, broadcasting, at [..., i0, ...]; repeated indices accumulate.

    >>> from autograd_gpu.ops.indexing.index_put import advanced_add
    >>> advanced_add(ag.ones(3), ag.tensor([5.0, 6.0]), ag.tensor([2, 2]), dims=(-1,))
    tensor([ 1.,  1., 12.])
    """

    forward = _advanced_add
    def grad_x(F, g): return g
    grad_values = _picked
    jvp, batch = _advanced_add_jvp, _advanced_add_batch
    integral, promoted, types = ("i0", "i1", "i2", "i3"), ("x", "values"), SAME


@public(methods=True)
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with `values`, broadcasting, at input[indices]; with `accumulate` they are added, and repeated
    indices accumulate. `indices` are tensors of integers or bools, None for a whole dimension. Without `accumulate` it
    is undefined which value a repeated index gets.

    >>> ag.index_put(ag.zeros(3), (ag.tensor([0, 0]),), ag.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    if values._array.dtype != input._array.dtype:
        raise RuntimeError("Index put requires the source and destination dtypes match, got "
                           f"{input.dtype} for the destination and {values.dtype} for the source.")
    op, simple = advanced_add if accumulate else advanced_set, simple_key(input._array, tuple(indices))
    if simple is not None:
        return _placed(op, input, values, *simple)
    parts = [FULL if part is None else _index_part(input, part) for part in indices]
    if not any(isinstance(part, Tensor) for part in parts):
        raise IndexError("index_put: indices must hold at least one tensor")
    _, tensors, dims = split_key(input, parts)
    if len(tensors) > MOST:
        flat = _placed(op, reshape(input, (-1,)), values, (flat_index_of(input, tensors, dims),), (-1,))
        return reshape(flat, input.shape)
    return _placed(op, input, values, tensors, dims)


def _index_part(x: Tensor, part: Any) -> Tensor:
    if not isinstance(part, Tensor) and not backend.is_array(part) and not isinstance(part, (list, tuple)):
        raise TypeError(f"index_put: indices are tensors or None, not {type(part).__name__}; for slices use "
                        "slice_scatter")
    index = key_part(x, part)
    return wrap(backend.to_device(np.asarray(index), x.device)) if isinstance(index, int) else index


def _placed(op: Any, x: Tensor, values: Any, indices: Sequence[Tensor], dims: tuple[int, ...]) -> Tensor:
    try:
        return op(x, values, *indices, dims=dims)
    except IndexError as error:
        raise IndexError(index_error_text(str(error))) from None


# ---- along one dimension -------------------------------------------------------------------------------


def _along(op: Any, x: Tensor, dim: int, index: Tensor, values: Any) -> Tensor:
    """A copy of x with `values`, in x's dtype, at the vector `index` of dimension `dim`."""
    at = wrap_dim(dim, x.ndim)
    if x.ndim:
        return _placed(op, x, values, (index,), (at - x.ndim,))
    values = reshape(values, (-1,)) if isinstance(values, Tensor) else values
    return reshape(_placed(op, reshape(x, (1,)), values, (index,), (-1,)), ())


def _checked(name: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`index` as a vector, after checks of the shapes and dtypes."""
    index, dim = index_vector(name, index), wrap_dim(dim, x._array.ndim)
    if x._array.dtype != source._array.dtype:
        raise RuntimeError(f"{name}(): self and source expected to have the same dtype, but got (self) {x.dtype} and "
                           f"(source) {source.dtype}")
    count, shape = index._array.shape[0], x._array.shape
    if source._array.shape == shape and shape and shape[dim] == count:
        return index
    if not x.ndim and source.ndim < 2 and source.numel() == count:
        return index
    expected = (*shape[:dim], count, *shape[dim + 1 :])
    if source.shape != expected:
        raise RuntimeError(f"{name}(): source must have the shape of self, with the number of indices at dimension "
                           f"{dim}: expected {list(expected)}, got {list(source.shape)}")
    return index


@public(methods=True, out=True)
@other_words
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """input plus alpha * source[k] at index[k] of dimension `dim`, for every k; out of place.

    >>> ag.index_add(ag.zeros(3), 0, ag.tensor([0, 2, 0]), ag.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    index = _checked("index_add", input, dim, index, source)
    return _along(advanced_add, input, dim, index, source if alpha == 1 else source * alpha)


_add_recorded = in_place(index_add, "index_add_")


@method()
@other_words
def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Adds alpha * source[k] to input at index[k] of dimension `dim`, for every k; returns input.

    >>> x = ag.zeros(3)
    >>> x.index_add_(0, ag.tensor([0, 2, 0]), ag.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    x = input
    array = x._array
    if type(array) is not np.ndarray or not array.ndim or array.dtype not in FULL_FLOATS or alpha != 1:
        return _add_recorded(x, dim, index, source, alpha=alpha)
    if not array.flags.c_contiguous or is_recorded(x, (index, source)) or np.may_share_memory(array, source._array):
        return _add_recorded(x, dim, index, source)
    index = _checked("index_add_", x, dim, index, source)  # written directly: a copy of x takes longer than the sums
    check_writable("index_add_", x)
    add_at(np, array, wrap_dim(dim, array.ndim) - array.ndim, (index._array,), source._array, "index_add_")
    bump_version(x)
    return x


@public(methods=True, inplace=True, out=True)
@other_words
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of input with source[k] at index[k] of dimension `dim`, for every k.

    For repeated indices it is undefined which element is written, and the gradient of source is wrong. A vector takes a
    0-d source for one index.

    >>> ag.index_copy(ag.zeros(3), 0, ag.tensor([2, 0]), ag.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    if input.ndim == 1 and not source.ndim:
        if index.numel() != 1:
            raise IndexError("index_copy(): When source is scalar, index should have one element "
                             f"(got {index.numel()})")
        source = reshape(source, (1,))
    return _along(advanced_set, input, dim, _checked("index_copy", input, dim, index, source), source)


@public(methods=True)
@other_words
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of input with `value`, a number or 0-d tensor, at `index` of dimension `dim`.

    >>> ag.index_fill(ag.zeros(3), 0, ag.tensor([2, 0]), 1.0)
    tensor([1., 0., 1.])
    """
    index = index_vector("index_fill", index, negative=True)
    if not isinstance(value, Tensor):
        return _along(advanced_set, input, dim, index, fitting(value, input.dtype))
    if value.ndim:
        raise RuntimeError("index_fill only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value.ndim} dimension(s).")
    at, size = wrap_dim(dim, input.ndim), input.shape[dim] if input.ndim else 1
    # by a mask, so that a repeated index counts once in the gradient
    chosen = _placed(advanced_set, zeros(size, dtype=bool_, device=input.device), True, (index,), (-1,))
    return RECORD.masked_fill(input, reshape(chosen, (-1, *(1,) * (input.ndim - 1 - at)) if input.ndim else ()), value)


# ---- by flat index -------------------------------------------------------------------------------------


def _flat_index(name: str, x: Tensor, index: Tensor) -> None:
    if index.dtype not in (int64, int32):
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype}")
    if index.numel() and not x.numel():
        raise IndexError(f"{name}(): tried to reach an element of an empty tensor")


@public(methods=True, out=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened input at the flat indices `index`, in the shape of `index`.

    >>> ag.take(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([3, 0]))
    tensor([4., 1.])
    """
    _flat_index("take", input, index)
    try:
        return advanced_index(reshape(input, (-1,)), index, dims=(-1,))
    except IndexError as error:
        raise IndexError(index_error_text(str(error))) from None


@public(methods=True, inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with the elements of `source` at the flat indices `index`. With `accumulate` they are added;
    without it, it is undefined which element a repeated index gets.

    >>> ag.put(ag.zeros(2, 2), ag.tensor([3, 0]), ag.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 1.]])
    """
    _flat_index("put", input, index)
    if input.dtype != source.dtype:
        raise RuntimeError("put(): self and source expected to have the same dtype, but got self.dtype = "
                           f"{input.dtype} and source.dtype = {source.dtype}")
    if source.numel() != index.numel():
        raise IndexError("put(): Expected source and index to have the same number of elements, but got "
                         f"source.numel() = {source.numel()}, index.numel() = {index.numel()}")
    op = advanced_add if accumulate else advanced_set
    flat = _placed(op, reshape(input, (-1,)), reshape(source, index.shape), (index,), (-1,))
    return reshape(flat, input.shape)


# ---- instead of a view ---------------------------------------------------------------------------------


def _replaced(x: Tensor, src: Tensor, key: tuple[Any, ...]) -> Tensor:
    shape = example(x, False)[key].shape
    if src.shape != shape:
        raise RuntimeError("expected src to have a size equal to the slice of self. "
                           f"src size = {list(src.shape)}, slice size = {list(shape)}")
    return basic_set(x, to(src, x.dtype), key)


@public(methods=True)
@other_words
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with `src` instead of select(input, dim, index), whose shape it has; in input's dtype.

    >>> ag.select_scatter(ag.zeros(2, 2), ag.tensor([1.0, 2.0]), 0, 1)
    tensor([[0., 0.],
            [1., 2.]])
    """
    return _replaced(input, src, select_key(input, dim, index))


@public(methods=True, out=True)
@other_words
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of input with `src` instead of the slice start:end:step of dimension `dim`; in input's dtype.

    >>> ag.slice_scatter(ag.zeros(4), ag.tensor([1.0, 2.0]), 0, 0, 4, 2)
    tensor([1., 0., 2., 0.])
    """
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    if not input.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    return _replaced(input, src, key_along(wrap_dim(dim, input.ndim) - input.ndim, slice(start, end, step)))
