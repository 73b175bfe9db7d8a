"""Arrays that users hand in, as what the library computes with: plain arrays of its dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cuda import runtime
from .dtypes import ALL, OURS


def admitted(array: Any) -> Any:
    """`array`, of NumPy or CuPy, as a plain array of one of our dtype objects: itself, or a view of its memory.

    Subclasses may not come in as they are: a matrix multiplies otherwise, a masked array leaves elements out. TypeError
    for a dtype that is not supported; ValueError for a foreign byte order, for masked elements, which have no value,
    and for elements that lie no whole number of elements apart, as in a field of records.
    """
    dtype = array.dtype
    known = OURS.get(dtype)
    if known is None:
        raise _refused(dtype)
    if type(array) is not np.ndarray:
        array = _plain(array)
    for stride in array.strides:
        if stride % dtype.itemsize:
            raise ValueError(f"the strides {array.strides} of an array of dtype {dtype} are no multiples of its "
                             f"{dtype.itemsize} bytes; make an array with .copy()")
    return array if known is dtype else array.view(known)  # equal and another object: np.longlong, one with metadata


def is_read_only(array: Any) -> bool:
    """Whether NumPy forbids to write to `array`; CuPy has no such arrays."""
    return type(array) is np.ndarray and not array.flags.writeable


def _plain(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        plain = runtime.cupy().ndarray
        return array if type(array) is plain else array.view(type=plain)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError("a masked array has no values where it is masked, and a tensor has no mask; give it values "
                         "with .filled(value), or take those under the mask with .data")
    return array.view(np.ndarray)


def _refused(dtype: np.dtype) -> Exception:
    native = dtype.newbyteorder("=")
    if native in OURS:
        return ValueError(f"the byte order of an array of dtype {dtype.str} is not this machine's; convert the array "
                          f"with .astype(np.{native})")
    return TypeError(f"can't convert an array of dtype {dtype}; supported are {', '.join(sorted(map(str, ALL)))}")
