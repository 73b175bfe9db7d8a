"""Checks of arrays from users, and their conversion to plain arrays of the supported dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cuda import runtime
from .dtypes import ALL, OURS


def admitted(array: Any) -> Any:
    """A NumPy or CuPy array as a plain array of one of our dtype objects: the same array, or a view of it.

    Subclasses become plain arrays, since np.matrix redefines `*` and masked arrays skip elements. TypeError for an
    unsupported dtype; ValueError for a foreign byte order, for masked elements, which have no value, and for strides
    that are not multiples of the item size, as in a field of a structured array.
    """
    dtype = array.dtype
    known = OURS.get(dtype)
    if known is None:
        raise _refused(dtype)
    if type(array) is not np.ndarray:
        array = _plain(array)
    for stride in array.strides:
        if stride % dtype.itemsize:
            raise ValueError(f"the strides {array.strides} of an array of dtype {dtype} are not multiples of its "
                             f"{dtype.itemsize} bytes; make an array with .copy()")
    return array if known is dtype else array.view(known)  # equal and another object: np.longlong, one with metadata


def is_read_only(array: Any) -> bool:
    """Whether `array` is a read-only NumPy array; CuPy has no read-only arrays."""
    return type(array) is np.ndarray and not array.flags.writeable


def _plain(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        plain = runtime.cupy().ndarray
        return array if type(array) is plain else array.view(type=plain)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError("a masked array has no values where it is masked, and a tensor has no mask; fill it with "
                         ".filled(value), or use the values under the mask, .data")
    return array.view(np.ndarray)


def _refused(dtype: np.dtype) -> Exception:
    native = dtype.newbyteorder("=")
    if native in OURS:
        return ValueError(f"the byte order of an array of dtype {dtype.str} is not this machine's; convert the array "
                          f"with .astype(np.{native})")
    return TypeError(f"can't convert an array of dtype {dtype}; supported are {', '.join(sorted(map(str, ALL)))}")
