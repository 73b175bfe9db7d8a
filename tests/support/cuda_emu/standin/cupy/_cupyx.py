"""The part of cupyx that the stand-in has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._array import ndarray
from ._creation import shape_of
from ._pinned import alloc_pinned_memory
from ._solvers import errstate as errstate
from ._solvers import geterr as geterr
from ._solvers import seterr as seterr
from ._sync import DeviceSynchronized as DeviceSynchronized
from ._sync import allow_synchronize as allow_synchronize
from ._ufunc import ufunc


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    """A NumPy array in pinned memory, unset."""
    shape, dtype = shape_of(shape), np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    return np.ndarray(shape, dtype, alloc_pinned_memory(count * dtype.itemsize) if count else None, order=order)


def empty_like_pinned(
    a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> np.ndarray:
    if subok is not None:
        raise TypeError("subok is not supported yet")
    fortran = order == "F" or (order in "KA" and a.flags.f_contiguous and not a.flags.c_contiguous)
    shape, dtype = a.shape if shape is None else shape, a.dtype if dtype is None else dtype
    return empty_pinned(shape, dtype, "F" if fortran else "C")


def zeros_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    out = empty_pinned(shape, dtype, order)
    out[...] = 0
    return out


def zeros_like_pinned(
    a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> np.ndarray:
    out = empty_like_pinned(a, dtype, order, subok, shape)
    out[...] = 0
    return out


rsqrt = ufunc("cupyx.rsqrt", "rsqrt", lambda x: 1 / np.sqrt(x), 1)


def scatter_add(a: ndarray, slices: Any, value: Any) -> None:
    a.scatter_add(slices, value)


def scatter_max(a: ndarray, slices: Any, value: Any) -> None:
    a.scatter_max(slices, value)


def scatter_min(a: ndarray, slices: Any, value: Any) -> None:
    a.scatter_min(slices, value)
