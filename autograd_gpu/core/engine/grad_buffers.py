"""Handles gradients as arrays: sums, conversions of what rules return, and arrays that a leaf can own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.memory_format import memory_order
from ...backend.cpu import pool, rows


def zeros(like: Any) -> Any:
    """Makes zeros with the shape, dtype and device of an array or an edge."""
    home = backend.device_of(like) if backend.is_array(like) else like.device or backend.CPU
    return backend.make(home, "zeros", like.shape, like.dtype)


def added(a: Any, b: Any) -> Any:
    """Returns a + b."""
    return rows.of_two(np.add, a, b) if type(a) is np.ndarray and a.nbytes >= pool.SMALLEST else a + b


def as_array(g: Any, dtype: Any = None) -> Any:
    """Converts a gradient to an array of `dtype`: rules may return NumPy scalars, and may have widened bfloat16."""
    if g.base is not None and 0 in g.strides:
        g = g.copy()  # perhaps a broadcast view, and the receiver may write to it
    elif type(g) is not np.ndarray and isinstance(g, np.generic):
        g = np.asarray(g)
    return g if g.dtype is dtype or dtype is None else g.astype(dtype, copy=False)


def own(g: Any, dtype: Any, like: Any) -> Any:
    """Returns `g` itself if nothing else references it and its layout is that of `like`, otherwise a copy.

    `like` is None if the layout is irrelevant, because `g` is going to be added to another array.
    """
    fresh = g.dtype is dtype and sys.getrefcount(g) <= FRESH and (g.base is None or pool.owns(g))
    if fresh and not isinstance(g, np.generic) and (like is None or g.strides == like.strides or lies_as(g, like)):
        return g
    order = None if like is None else dense_order(like, g.shape)
    if order is None:
        return backend.namespace(g).array(g, dtype=dtype, order="C")
    return backend.namespace(g).array(g.transpose(order), dtype=dtype, order="C").transpose(inverse(order))


def lies_as(g: Any, like: Any) -> bool:
    """Whether `g` has the layout for a gradient of the leaf `like`: its strides if it is dense, otherwise row-major."""
    order = dense_order(like, g.shape)
    if order is None:
        return g.flags.c_contiguous
    return all(a == b or size == 1 for a, b, size in zip(g.strides, like.strides, like.shape, strict=True))


def dense_order(array: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions of a dense, but not row-major array from the outermost to the innermost; otherwise None.

    Also None if `shape`, the shape of the array that should get this layout, differs.
    """
    if array.flags.c_contiguous or array.shape != shape:
        return None
    order = memory_order(array)
    stride = array.itemsize
    for d in reversed(order):
        if array.shape[d] != 1:
            if array.strides[d] != stride:
                return None
            stride *= array.shape[d]
    return order


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)


def _calibrate() -> int:
    """The reference count that `own` sees on this Python for an array that only its caller references."""

    def fire(buffers: dict[int, Any]) -> int:
        g = buffers.pop(0)
        return own(g, g.dtype, None)

    def own(g: Any, dtype: Any, like: Any) -> int:
        return sys.getrefcount(g)

    return fire({0: np.empty(1)})


FRESH = _calibrate()
