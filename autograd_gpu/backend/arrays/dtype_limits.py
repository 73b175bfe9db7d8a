"""The numeric limits of the dtypes: finfo, iinfo, can_cast."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from .dtypes import FLOATS, INTEGERS, STORAGE, as_dtype, category, get_default_dtype


class FloatLimits(NamedTuple):
    """The result of `finfo`."""

    resolution: float
    min: float
    max: float
    eps: float
    smallest_normal: float
    tiny: float
    bits: int
    dtype: str


class IntegerLimits(NamedTuple):
    """The result of `iinfo`."""

    min: int
    max: int
    bits: int
    dtype: str


def finfo(dtype: object = None) -> FloatLimits:
    """The limits of a floating-point dtype; None means the default dtype. TypeError for any other dtype.

    >>> ag.finfo(ag.float32).eps
    1.1920928955078125e-07
    """
    resolved = get_default_dtype() if dtype is None else as_dtype(dtype)
    if resolved not in FLOATS | STORAGE:
        raise TypeError(f"finfo() requires a floating point input type, got {resolved}. Use iinfo for integers")
    info = ml_dtypes.finfo(resolved)
    tiny = float(info.smallest_normal)
    return FloatLimits(float(info.resolution), float(info.min), float(info.max), float(info.eps), tiny, tiny,
                       info.bits, str(resolved))


def iinfo(dtype: object) -> IntegerLimits:
    """The limits of an integer dtype; TypeError for any other dtype.

    >>> ag.iinfo(ag.int8).max
    127
    """
    resolved = as_dtype(dtype)
    if resolved not in INTEGERS:
        raise TypeError(f"iinfo() requires an integer input type, got {resolved}. Use finfo for floating point")
    info = np.iinfo(resolved)
    return IntegerLimits(int(info.min), int(info.max), info.bits, str(resolved))


def can_cast(from_: object, to: object) -> bool:
    """Whether PyTorch's rules allow a cast: to the same or a higher category of bool, integer, floating point.

    >>> ag.can_cast(ag.int64, ag.float16), ag.can_cast(ag.float32, ag.int32)
    (True, False)
    """
    return category(as_dtype(from_)) <= category(as_dtype(to))
