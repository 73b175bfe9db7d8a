"""Where arrays lie: addresses, the buffer behind a view, views by strides."""

from __future__ import annotations

from typing import Any

import numpy as np

# A view of a buffer: sizes, strides and offset, in elements.
StridedGeometry = tuple[tuple[int, ...], tuple[int, ...], int]


def address(array: Any) -> int:
    """Where the first element lies, in bytes."""
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr


def strided(xp: Any, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The view of `array` that starts at its first element and has these strides, in bytes; nobody checks them.

    NumPy's constructor takes a tenth of the time of its as_strided, which goes through Python objects.
    """
    if xp is not np:
        return xp.ndarray(shape, array.dtype, array.data, strides)
    if array.flags.c_contiguous and array.dtype.isbuiltin == 1:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def is_stretched(array: Any) -> bool:
    """Whether elements lie at one place because a dimension was expanded."""
    if 0 not in array.strides or not array.size:
        return False
    return any(size > 1 for size, stride in zip(array.shape, array.strides, strict=True) if stride == 0)


def buffer_of(array: Any) -> Any:
    """The whole buffer that `array` is a view of, as a vector of the same dtype."""
    owner = array
    while owner.base is not None:
        base = owner.base
        base = base if isinstance(base, type(array)) else getattr(base, "base", None)  # NumPy's as_strided hides it
        if not isinstance(base, type(array)):
            break
        owner = base
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        raise RuntimeError("the memory behind this tensor has gaps; use .clone() first")
    flat = owner.reshape(-1) if owner.flags.c_contiguous else owner.T.reshape(-1)
    if flat.dtype == array.dtype:
        return flat
    flat = flat.view("uint8")
    flat = flat[(address(array) - address(flat)) % array.itemsize :]  # of an array in the midst of bytes
    return flat[: flat.size // array.itemsize * array.itemsize].view(array.dtype)


def offset_of(array: Any) -> int:
    """How many elements of the buffer lie before the first element of `array`."""
    return (address(array) - address(buffer_of(array))) // array.itemsize


def geometry_of(array: Any, start: int) -> StridedGeometry:
    """Where `array` lies, counted from the address `start` of the first element of one of the same dtype."""
    size, first = array.itemsize, address(array)
    return array.shape, tuple([s // size for s in array.strides]), 0 if first == start else (first - start) // size
