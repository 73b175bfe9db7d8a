"""Indexing: x[key], index_select.

1. Integers, slices, None and Ellipsis select a view (basic_index.py).
2. Tensors (arrays, lists) of integers or bools select a copy. In a mixed key, the view is taken first and the tensors
   index the view: x[0, :, i] is x[0][:, i], as in PyTorch; NumPy treats the integer as an index array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays.dtypes import INTEGERS, bool_, int32, int64, uint8
from ...backend.arrays.flat_index import add_at
from ...core.extend import (
    LINEAR,
    Float8Tensor,
    LevelTensor,
    Tensor,
    defop,
    expanded,
    is_batched,
    one_by_one,
    other_words,
    public,
    rank,
    storage_of,
    wrap,
    wrap_codes,
    wrap_given,
)
from ..shape.reshape import reshape
from .basic_index import FULL, basic_index, check_non_negative, wrap_dim
from .batched_key import BatchedKey

SUMS = "adding at indices (index_add, index_put with accumulate=True, the gradients of indexing and embedding)"

BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
MOST = 4  # the most tensors in a key of advanced_index
INDEX_DTYPES = (int64, int32)


# ---- indexing with tensors -----------------------------------------------------------------------------


def advanced_key(ndim, dims, indices):
    """The key with `indices[k]` at dimension dims[k] < 0, the first dimension of a mask of several."""
    at = dims[0]
    key: list[Any] = [...] if ndim > -at else []
    for dim, index in zip(dims, indices, strict=True):
        key += [FULL] * (dim - at)
        key.append(index)
        at = dim + (index.ndim if index.dtype == bool_ else 1)
    return (*key, *[FULL] * -at)


def not_none(*indices):
    """The indices that are not None."""
    return [index for index in indices if index is not None]


def _advanced_index(xp, x, i0, i1=None, i2=None, i3=None, *, dims):
    if i1 is None and i0.dtype != bool_:
        return x.take(i0, dims[0])  # 1.5 to 4 times as fast as x[key]
    return x[advanced_key(x.ndim, dims, not_none(i0, i1, i2, i3))]


def _advanced_index_backward(xp, g, i0, i1=None, i2=None, i3=None, *, dims, shape):
    indices = not_none(i0, i1, i2, i3)
    if i1 is None and i0.dtype == bool_:
        out = xp.zeros(shape, g.dtype)
        out[advanced_key(len(shape), dims, indices)] = g  # a mask selects no element twice
        return out
    return advanced_sums(xp, xp.zeros(shape, g.dtype), indices, dims, g)


def advanced_sums(xp, out, indices, dims, g):
    """Adds g, broadcasting, to `out`, a new array, at the tensors `indices` of dimensions `dims`, and returns it."""
    at, end = dims[0], dims[0] + len(dims)
    adjacent = len(dims) == 1 or dims == tuple(range(at, end))
    if adjacent and not any(index.dtype == bool_ for index in indices):
        named = indices[0].shape if len(indices) == 1 else np.broadcast_shapes(*[index.shape for index in indices])
        shape = (*out.shape[:at], *named, *out.shape[out.ndim + end :])
        return add_at(xp, out, at, indices, g if g.shape == shape else xp.broadcast_to(g, shape), SUMS)
    flat = xp.arange(out.size).reshape(out.shape)[advanced_key(out.ndim, dims, indices)]
    return add_at(xp, out.reshape(-1), -1, [flat], xp.broadcast_to(g, flat.shape), SUMS).reshape(out.shape)


def _advanced_index_batch(F, n, batched, x, i0, i1, i2, i3, *, dims):
    indices = not_none(i0, i1, i2, i3)
    mine, theirs = batched[0], batched[1 : 1 + len(indices)]
    if mine and any(theirs) and len(indices) == MOST:  # together with the batch indices they would be too many
        def run(x, *indices): return F.advanced_index(x, *indices, dims=dims)
        return one_by_one(F, "advanced_index", run, n, (mine, *theirs), (x, *indices))
    key = BatchedKey(F, "advanced_index", n, rank(x, mine), dims, indices, theirs, mine)
    return key.examples_first(F, F.advanced_index(x, *key.indices, dims=key.dims))


def _advanced_index_backward_batch(F, n, batched, g, i0, i1, i2, i3, *, dims, shape):
    indices = not_none(i0, i1, i2, i3)
    mine, theirs = batched[0], batched[1 : 1 + len(indices)]
    if any(theirs) and len(indices) == MOST:
        def run(g, *indices): return F.advanced_index_backward(g, *indices, dims=dims, shape=shape)
        return one_by_one(F, "advanced_index_backward", run, n, (mine, *theirs), (g, *indices))
    key = BatchedKey(F, "advanced_index_backward", n, len(shape), dims, indices, theirs, True)
    (g,) = expanded(F, n, (mine,), (g,))  # the op itself does not broadcast
    return F.advanced_index_backward(key.as_selected(F, g, n, True), *key.indices, dims=key.dims, shape=(n, *shape))


@defop
class advanced_index:
    """x[..., i0, ...]: integer or bool tensors i0 to i3 at the dimensions `dims`, negative and ascending.

    >>> ag.tensor([1.0, 2.0, 3.0])[ag.tensor([2, 0, 0])]
    tensor([3., 1., 1.])
    """

    forward = _advanced_index
    def grad_x(F, g, x_shape, i0, i1, i2, i3, dims):
        return F.advanced_index_backward(g, i0, i1, i2, i3, dims=dims, shape=x_shape)
    integral = ("i0", "i1", "i2", "i3")
    def sizes_by_value(x, *indices, dims): return any(i is not None and i.dtype == bool_ for i in indices)
    jvp, batch = LINEAR, _advanced_index_batch


@defop
class advanced_index_backward:
    """Zeros of `shape` plus g at the tensors' indices, where repeated indices accumulate: the transpose of
    advanced_index.

    >>> from autograd_gpu.ops.indexing.index import advanced_index_backward
    >>> advanced_index_backward(ag.tensor([1.0, 2.0]), ag.tensor([1, 1]), dims=(-1,), shape=(3,))
    tensor([0., 3., 0.])
    """

    forward = _advanced_index_backward
    def grad_g(F, g, i0, i1, i2, i3, dims): return F.advanced_index(g, i0, i1, i2, i3, dims=dims)
    integral = ("i0", "i1", "i2", "i3")
    jvp, batch = LINEAR, _advanced_index_backward_batch


# ---- x[key] --------------------------------------------------------------------------------------------


def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key]: a view for integers, slices, None and Ellipsis, a copy if tensors, arrays or lists are among them.

    IndexError for an invalid key. Slices may have negative steps. A list, nested or not, is one index tensor; masks are
    bool; a uint8 tensor is a mask, too, with PyTorch's warning, and a uint8 array is an error.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x[:, 1], x[x > 2], x[[1, 0], 0]
    (tensor([2., 4.]), tensor([3., 4.]), tensor([3., 1.]))
    """
    if type(x) is Float8Tensor:
        codes = wrap(x._array)
        codes._storage = storage_of(x)
        picked = getitem(codes, key)
        result = wrap_codes(picked._array, x._codes_dtype)
        result._storage = picked._storage
        return result
    try:
        if type(key) in BASIC or (type(key) is tuple and BASIC.issuperset(map(type, key))):
            return basic_index(x, key)
        if type(key) is list:
            key = key_part(x, key)
        if type(key) is Tensor and leads(x._array, key._array):
            return advanced_index(x, key, dims=(-x._array.ndim,))
        if type(key) is tuple and (simple := simple_key(x._array, key)) is not None:
            return advanced_index(x, *simple[0], dims=simple[1])
        parts = [key_part(x, part) for part in (key if type(key) is tuple else (key,))]
        if any(isinstance(part, LevelTensor) for part in parts):
            x, parts = _with_numbers_picked(x, parts)
        if any(isinstance(part, Tensor) for part in parts):
            view, indices, dims = split_key(x, parts)
            if len(indices) > MOST:
                return advanced_index(reshape(view, (-1,)), flat_index_of(view, indices, dims), dims=(-1,))
            return advanced_index(view, *indices, dims=dims)
        return basic_index(x, tuple(parts))
    except IndexError as error:
        raise IndexError(index_error_text(str(error), x.ndim)) from None


def _is_lifted_number(index: Any) -> bool:
    return isinstance(index, LevelTensor) and not index.ndim and index.dtype != bool_


def _with_numbers_picked(x: Tensor, parts: list[Any]) -> tuple[Tensor, list[Any]]:
    """Picks what tensors of a function transform name that stand for one integer: vmap's cannot be read as a number."""
    for i, part in enumerate(parts):
        if _is_lifted_number(part):
            before, after = (sum(map(_dims_of, some)) for some in (parts[:i], parts[i + 1 :]))
            dim = -after - 1 if any(p is Ellipsis for p in parts[:i]) else before - x.ndim
            if before + after >= x.ndim:
                raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
            x = advanced_index(x, reshape(part, (1,)), dims=(dim,))
            parts = [*parts[:i], 0, *parts[i + 1 :]]
    return x, parts


def index_error_text(text: str, ndim: int = 1) -> str:
    """PyTorch's text for the text of an IndexError of NumPy or CuPy, for a tensor of `ndim` dimensions."""
    if "too many indices" in text:
        if not ndim:
            return "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number"
        return f"too many indices for tensor of dimension {ndim}"
    return text.replace("Index ", "index ").replace("axis", "dimension").replace("array", "tensor")


def leads(array: Any, index: Any) -> bool:
    """Whether `index` can index the first dimensions of `array` unchanged: the common case."""
    if type(index) is not type(array) or not index.ndim:
        return False
    if index.dtype is bool_:
        return index.shape == array.shape[: index.ndim]
    return index.dtype is int64 and array.ndim > 0


def flat_index_of(x: Tensor, indices: list[Tensor], dims: tuple[int, ...]) -> Tensor:
    """The flat indices into x of a key with more tensors than an op takes."""
    arrays = [index.array for index in indices]
    xp, key = backend.namespace(*arrays), advanced_key(x.ndim, dims, arrays)
    return wrap(xp.arange(x.numel()).reshape(x.shape)[key])


def simple_key(array: Any, key: tuple[Any, ...]) -> tuple[list[Tensor], tuple[int, ...]] | None:
    """The tensors and their dimensions, if the key has only whole slices and integer tensors; else None."""
    if len(key) > array.ndim:
        return None
    tensors, dims = [], []
    for dim, part in enumerate(key, -array.ndim):
        if type(part) is Tensor and type(part._array) is type(array) and part._array.dtype is int64 and part.ndim:
            tensors.append(part)
            dims.append(dim)
        elif type(part) is not slice or part != FULL:
            return None
    return (tensors, tuple(dims)) if 0 < len(tensors) <= MOST else None


def key_part(x: Tensor, part: Any) -> Any:
    """One part of a key as a basic index or as a Tensor of integers or bools."""
    if type(part) in BASIC:
        return part
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        return int(part)
    if isinstance(part, (bool, np.bool_)):
        part = np.asarray(part)
    elif isinstance(part, (list, tuple, range)):
        part = np.asarray(part) if len(part) else np.zeros(0, int64)
    index = part if isinstance(part, Tensor) else wrap_given(part) if backend.is_array(part) else None
    if index is None:
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                         f"indices (got {type(part).__name__})")
    if index.dtype == uint8 and isinstance(part, Tensor):
        errors.warn_user("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
        index = index != 0
    if index.dtype == uint8 or (index.dtype not in INTEGERS and index.dtype != bool_):
        raise IndexError("tensors used as indices must be int64, int32 or bool tensors, "
                         f"got {index.dtype}; convert with .to(...)")
    if not index.ndim and index.dtype != bool_ and index.device == backend.CPU and not is_batched(index):
        return int(index)
    return index if index.device.type == x.device.type else wrap(backend.to_device(index._array, x.device))


def split_key(x: Tensor, parts: list[Any]) -> tuple[Tensor, list[Tensor], tuple[int, ...]]:
    """Splits a key with tensors: the view by its basic parts, the tensors, and their dimensions in the view."""
    taken = sum(_dims_of(part) for part in parts)
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    basic, indices, starts, at = [], [], [], 0
    for part in parts if Ellipsis in map(_plain, parts) else [*parts, ...]:
        size = x.ndim - taken if part is Ellipsis else _dims_of(part)
        if isinstance(part, Tensor):
            indices.append(part)
            starts.append(at)
        whole = isinstance(part, Tensor) or part is Ellipsis
        basic += [FULL] * size if whole else [part]
        at += size if whole else not isinstance(part, int)
    if basic.count(FULL) < len(basic):
        x = basic_index(x, tuple(basic))
    for index, start in zip(indices, starts, strict=True):
        _check_mask(x, index, start)
    return x, indices, tuple(start - at for start in starts)


def _check_mask(x: Tensor, index: Tensor, start: int) -> None:
    if index.dtype == bool_:
        for i, size in enumerate(index.shape):
            if size != x.shape[start + i]:
                raise IndexError(f"The shape of the mask {list(index.shape)} at index {i} does not match the shape of "
                                 f"the indexed tensor {list(x.shape)} at index {start + i}")


def _plain(part: Any) -> Any:
    return None if isinstance(part, Tensor) else part  # `in` would compare tensors elementwise


def _dims_of(part: Any) -> int:
    """How many dimensions of the indexed tensor a part of a key consumes."""
    if isinstance(part, Tensor):
        return part.ndim if part.dtype == bool_ else 1
    return 0 if part is None or part is Ellipsis else 1


# ---- along one dimension -------------------------------------------------------------------------------


def index_vector(name: str, index: Tensor, negative: bool = False) -> Tensor:
    """`index` as a vector of integers, checked; negative ones are an error unless `negative`."""
    array = index._array
    if array.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index but got: {index.dtype}")
    if array.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if not negative:
        check_non_negative(name, index, 0)
    return index if array.ndim else reshape(index, (1,))


@public(methods=True, out=True)
@other_words
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """input at the indices `index`, a vector of integers, of dimension `dim`. A copy.

    >>> ag.index_select(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, ag.tensor([1, 1]))
    tensor([[2., 2.],
            [4., 4.]])
    """
    index, dim = index_vector("index_select", index), wrap_dim(dim, input.ndim)
    if not input.ndim:
        return reshape(index_select(reshape(input, (1,)), 0, index), ())
    try:
        return advanced_index(input, index, dims=(dim - input.ndim,))
    except IndexError as error:
        raise IndexError(index_error_text(str(error))) from None
