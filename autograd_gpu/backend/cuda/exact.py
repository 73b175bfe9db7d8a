"""Functions that give NumPy's and PyTorch's results where CuPy 14.2 gives others.

    where, tril, triu        CuPy has no bfloat16 loop and returns float32; here elements are moved as 16-bit integers
    remainder, floor_divide  CuPy uses the rounded quotient for floats: 1 // 0.1 is 10, 1 % inf is NaN
    fmod                     CuPy computes integers in float64, which has a 53-bit significand
    x.fill(-0.0)             CuPy does a memset for any zero and loses the sign, also for x[...] = -0.0 and for a copy
                             of a 0-d array from the host
    y[1:] = y[:-1]           CuPy copies overlapping operands of ufuncs first, but not those of a memcpy, and not the
                             value of an assignment by indices or a mask
    concatenate              of more than eight arrays CuPy copies the addresses to the device, which a capture refuses

Operands are CuPy arrays or Python numbers, at least one of them an array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays.dtypes import FLOATS, HALF, bfloat16, float32, int64, uint16
from ..arrays.strides import address, extent, may_share_memory
from . import runtime

_JOINED_BY_COPIES = 8  # arrays that CuPy joins without a table of their addresses
_BASIC = (int, slice, type(...))  # parts of a key that selects a view, with None


def where(mask: Any, a: Any, b: Any) -> Any:
    """cupy.where(mask, a, b) in one launch; `mask` is an array, `a` and `b` are numbers or arrays of the same dtype."""
    dtypes = {x.dtype for x in (a, b) if hasattr(x, "dtype")}
    if dtypes != {bfloat16}:
        return runtime.cupy().where(mask, a, b)
    return runtime.cupy().where(mask, _bits(a), _bits(b)).view(bfloat16)


def triangle(name: str, x: Any, diagonal: int) -> Any:
    """cupy.tril or cupy.triu of `x`, by `name`."""
    function = getattr(runtime.cupy(), name)
    return function(x.view(uint16), diagonal).view(bfloat16) if x.dtype == bfloat16 else function(x, diagonal)


def _bits(x: Any) -> Any:
    """The bits of a bfloat16 array, or of a number, as uint16."""
    if isinstance(x, runtime.cupy().ndarray):
        return x.view(uint16)
    return np.asarray(x, bfloat16).view(uint16)[()]


def concatenate(xp: Any, arrays: Sequence[Any], axis: int) -> Any:
    """xp.concatenate; while a stream of CuPy captures, of eight arrays at a time."""
    if xp is np or len(arrays) <= _JOINED_BY_COPIES or not xp.cuda.get_current_stream().is_capturing():
        return xp.concatenate(arrays, axis)
    groups = range(0, len(arrays), _JOINED_BY_COPIES)
    return concatenate(xp, [xp.concatenate(arrays[i : i + _JOINED_BY_COPIES], axis) for i in groups], axis)


def remainder(a: Any, b: Any) -> Any:
    """a modulo b with the sign of b."""
    xp = runtime.cupy()
    if _dtype(a, b) not in FLOATS:
        return xp.remainder(a, b)
    rest = xp.fmod(a, b)  # exact
    return where(_signs_differ(rest, b), rest + b, xp.copysign(rest, b))


def floor_divide(a: Any, b: Any) -> Any:
    """a / b rounded towards minus infinity; a / b where b is zero."""
    xp, dtype = runtime.cupy(), _dtype(a, b)
    if dtype not in FLOATS:
        return xp.floor_divide(a, b)
    if dtype in HALF:
        a, b = (x.astype(float32) if hasattr(x, "dtype") else x for x in (a, b))
    rest = xp.fmod(a, b)
    quotient = xp.true_divide(a, b)
    whole = xp.rint((a - rest) / b - _signs_differ(rest, b))  # b divides a - rest: rint removes rounding errors only
    out = xp.copysign(whole, quotient)
    if hasattr(b, "dtype"):
        out = where(b == 0, quotient, out)
    elif b == 0:
        out = quotient
    return out.astype(dtype, copy=False)


def fmod(a: Any, b: Any) -> Any:
    """a modulo b with the sign of a."""
    xp, dtype = runtime.cupy(), _dtype(a, b)
    if dtype != int64:
        return xp.remainder(a, b) if dtype.kind == "u" else xp.fmod(a, b)
    rest = xp.remainder(a, b)
    return rest - b * _signs_differ(rest, a)


def _dtype(a: Any, b: Any) -> np.dtype:
    return (a if hasattr(a, "dtype") else b).dtype


def _signs_differ(rest: Any, x: Any) -> Any:
    """True where `rest` is not zero and its sign differs from that of `x`."""
    return (rest != 0) & ((rest < 0) != (x < 0))


def assignable(value: Any, target: Any, key: Any = ...) -> Any:
    """`value` for target[key] = value: for CuPy -0.0 becomes a 0-d array, since it loses its sign, and an array that
    overlaps the elements written is copied. NumPy copies it, but for vectors: y[::2] = y[:4] reads what it has written.
    """
    if type(value) is type(target):
        if type(value) is np.ndarray and (value.ndim != 1 or (owner := value.base) is None or _apart(owner, target)):
            return value
        return value.copy() if may_share_memory(value, target) and _overlaps(value, target, key) else value
    if type(target) is np.ndarray or not isinstance(value, (float, np.floating)):
        return value
    negative_zero = value == 0 and math.copysign(1.0, value) < 0
    return runtime.cupy().full((), value, target.dtype) if negative_zero else value


def _apart(owner: Any, target: np.ndarray) -> bool:
    """Whether a view of the NumPy array `owner` certainly shares no memory with `target`."""
    return type(owner) is np.ndarray and owner.base is None and owner is not target and owner is not target.base


def _overlaps(value: Any, target: Any, key: Any) -> bool:
    """Whether an element of `value` may lie where target[key] = value writes another one."""
    if all(part is None or isinstance(part, _BASIC) for part in (key if type(key) is tuple else (key,))):
        target = target[key]
        if (address(value), value.shape, value.strides) == (address(target), target.shape, target.strides):
            return False
    (begin, end), (first, last) = extent(value), extent(target)
    return begin < last and first < end
