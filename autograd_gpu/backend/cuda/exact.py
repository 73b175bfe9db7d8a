"""What CuPy 14.2 computes otherwise than NumPy and PyTorch, computed as they do.

    where, tril, triu        have no loop for bfloat16 and would answer float32: its elements go as 16-bit integers
    remainder, floor_divide  of floating numbers come of the rounded quotient: 1 // 0.1 is 10, 1 % inf is NaN
    fmod                     of integers goes by float64, which has 53 bits
    x.fill(-0.0)             is a memset, as for any zero; so is x[...] = -0.0, and a 0-d array from the host

Operands are CuPy arrays or numbers, one of them an array at least.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays.dtypes import FLOATS, HALF, bfloat16, float32, int64, uint16
from . import runtime


def where(mask: Any, a: Any, b: Any) -> Any:
    """cupy.where(mask, a, b) in one launch; `mask` is an array, `a` and `b` are of one dtype, or numbers."""
    dtypes = {x.dtype for x in (a, b) if hasattr(x, "dtype")}
    if dtypes != {bfloat16}:
        return runtime.cupy().where(mask, a, b)
    return runtime.cupy().where(mask, _bits(a), _bits(b)).view(bfloat16)


def triangle(name: str, x: Any, diagonal: int) -> Any:
    """cupy.tril or cupy.triu of `x`."""
    function = getattr(runtime.cupy(), name)
    return function(x.view(uint16), diagonal).view(bfloat16) if x.dtype == bfloat16 else function(x, diagonal)


def _bits(x: Any) -> Any:
    """An array as integers, or a number as a NumPy scalar."""
    if isinstance(x, runtime.cupy().ndarray):
        return x.view(uint16)
    return np.asarray(x, bfloat16).view(uint16)[()]


def remainder(a: Any, b: Any) -> Any:
    """a modulo b with the sign of b."""
    xp = runtime.cupy()
    if _dtype(a, b) not in FLOATS:
        return xp.remainder(a, b)
    rest = xp.fmod(a, b)  # exact
    return where(_signs_differ(rest, b), rest + b, xp.copysign(rest, b))


def floor_divide(a: Any, b: Any) -> Any:
    """a / b rounded towards minus infinity; a / b itself where b is zero."""
    xp, dtype = runtime.cupy(), _dtype(a, b)
    if dtype not in FLOATS:
        return xp.floor_divide(a, b)
    if dtype in HALF:
        a, b = (x.astype(float32) if hasattr(x, "dtype") else x for x in (a, b))
    rest = xp.fmod(a, b)
    quotient = xp.true_divide(a, b)
    whole = xp.rint((a - rest) / b - _signs_differ(rest, b))  # b divides a - rest, so that only errors are rounded away
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
    """Where `rest` is not zero and `x` has another sign."""
    return (rest != 0) & ((rest < 0) != (x < 0))


def assignable(value: Any, target: Any) -> Any:
    """`value` as an assignment into `target`, an array of either module, takes it: -0.0 as an array for CuPy."""
    if type(target) is np.ndarray or not isinstance(value, (float, np.floating)):
        return value
    negative_zero = value == 0 and math.copysign(1.0, value) < 0
    return runtime.cupy().full((), value, target.dtype) if negative_zero else value
