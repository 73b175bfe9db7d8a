"""Indexing with integers, slices, None and Ellipsis, which returns a view; checks of dimension arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...backend.cpu import numpy_ops
from ...backend.cuda import exact
from ...core.extend import (
    ALWAYS,
    LINEAR,
    RECORD,
    SAME,
    Tensor,
    check_values,
    defop,
    example,
    expanded,
    other_words,
    public,
    rank,
)
from ...modes import MODES

FULL = slice(None)


def unpacked(values: tuple[Any, ...], named: Any = None) -> tuple[Any, ...]:
    """The arguments of x.reshape(2, 3), x.reshape((2, 3)) or x.reshape(shape=(2, 3)) as one tuple."""
    if named is not None:
        return tuple(named)
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def check_non_negative(name: str, index: Tensor, dim: int) -> None:
    """IndexError for a negative index, which NumPy would count from the end; not checked on CUDA, as in PyTorch."""
    if MODES.stack:
        check_values(index, lambda array: _refuse_negative(name, array, dim))
    else:
        _refuse_negative(name, index._array, dim)


def _refuse_negative(name: str, array: Any, dim: int) -> None:
    if type(array) is not np.ndarray or not array.size:
        return
    if numpy_ops.ends(array)[0] < 0:
        raise IndexError(f"{name}(): index {array.min()} is out of bounds for dimension {dim}")


def wrap_dim(dim: int, ndim: int) -> int:
    """`dim` as a number in [0, ndim); a 0-d tensor accepts 0 and -1. IndexError if out of range."""
    size = ndim or 1
    if not -size <= dim < size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})")
    return dim + size if dim < 0 else dim


def from_right(dim: int, ndim: int) -> int:
    """`dim` as a negative number, which stays valid when leading dimensions are added."""
    return dim if dim < 0 else dim - (ndim or 1)


def _basic_index(xp, x, *, key):
    out = x[key]
    if isinstance(out, np.generic):  # with Ellipsis NumPy returns a 0-d view instead of a scalar, which is a copy
        out = x[(*key, ...)] if type(key) is tuple else x[key, ...]
    return out


def _basic_index_backward(xp, g, *, key, shape):
    out = xp.zeros(shape, g.dtype)
    out[key] = g
    return out


def _add_piece(F, into, g, key):
    piece = F.basic_index(into, key)
    piece += g


def _basic_set(xp, x, src, *, key):
    out = xp.array(x)
    out[key] = exact.assignable(src, out)
    return out


def assigned(F, g, shape):
    """The gradient g of x[key] as the gradient of the assigned value, which has `shape` and was broadcast."""
    g = F.sum_to(g, shape[max(len(shape) - len(g.shape), 0) :])
    return F.reshape(g, shape)


def _batch_key(key):
    """The key for a tensor with a leading batch dimension."""
    return (FULL, *key) if type(key) is tuple else (FULL, key)


def _basic_set_batch(F, n, batched, x, src, *, key):
    if batched[1]:  # src broadcasts to x[key]; its further leading dimensions have size 1
        missing = example(x, batched[0])[key].ndim - rank(src, True)
        if missing:
            src = F.reshape(src, (n, *(1,) * missing, *src.shape[1 + max(-missing, 0) :]))
    return F.basic_set(*expanded(F, n, batched[:1], [x]), src, _batch_key(key))


@defop
class basic_index:
    """x[key], a view, for a key of integers, slices, None and Ellipsis, or a tuple of them.

    >>> ag.tensor([[1.0, 2.0], [3.0, 4.0]])[:, -1]
    tensor([2., 4.])
    """

    forward = _basic_index
    def grad_x(F, g, x_shape, key): return F.basic_index_backward(g, key, x_shape)
    add_x = _add_piece
    view = ALWAYS
    storage_ok = True
    def batch(F, n, batched, x, *, key): return F.basic_index(x, _batch_key(key))
    jvp = LINEAR


@defop
class basic_index_backward:
    """Zeros of `shape` with g at `key`: the transpose of basic_index.

    >>> from autograd_gpu.ops.indexing.basic_index import basic_index_backward
    >>> basic_index_backward(ag.tensor([5.0, 6.0]), slice(1, None), (3,))
    tensor([0., 5., 6.])
    """

    forward = _basic_index_backward
    def grad_g(F, g, key): return F.basic_index(g, key)
    def batch(F, n, batched, g, *, key, shape): return F.basic_index_backward(g, _batch_key(key), (n, *shape))
    jvp = LINEAR


@defop
class basic_set:
    """A copy of x with `src`, a number or a tensor that broadcasts, at x[key]; the key is one of basic_index.

    >>> from autograd_gpu.ops.indexing.basic_index import basic_set
    >>> basic_set(ag.zeros(3), ag.tensor([5.0, 6.0]), slice(1, None))
    tensor([0., 5., 6.])
    """

    forward = _basic_set
    def grad_x(F, g, key): return F.basic_set(g, 0.0, key)
    def grad_src(F, g, src_shape, key): return assigned(F, F.basic_index(g, key), src_shape)
    types, numbers, selects_only = SAME, True, True
    jvp, batch = LINEAR, _basic_set_batch


@public(methods=True)
@other_words
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The view of input with the indices start to start + length - 1 of dimension `dim`.

    >>> ag.narrow(ag.tensor([1.0, 2.0, 3.0]), 0, 1, 2)
    tensor([2., 3.])
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return basic_index(input, key_along(dim - input.ndim, slice(start, start + length)))


@public(methods=True)
@other_words
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The view of input at index `index` of dimension `dim`, without that dimension.

    >>> ag.select(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, 0)
    tensor([1., 3.])
    """
    return basic_index(input, select_key(input, dim, index))


def select_key(x: Tensor, dim: int, index: int) -> tuple[Any, ...]:
    """The key of select(x, dim, index), after its checks."""
    if x.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, x.ndim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}")
    return key_along(dim - x.ndim, operator.index(index))


def key_along(dim: int, part: Any) -> tuple[Any, ...]:
    """The key that applies `part` to dimension `dim` < 0 and takes the other dimensions whole."""
    return (..., part, *[FULL] * (-1 - dim))


@public(methods=True, out=True)
@other_words
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow(input, dim, start, length) as a copy.

    >>> ag.narrow_copy(ag.tensor([1.0, 2.0, 3.0]), 0, 1, 2)
    tensor([2., 3.])
    """
    return RECORD.contiguous_copy(narrow(input, dim, start, length))
