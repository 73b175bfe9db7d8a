"""Powers of floating-point numbers on the CPU.

NumPy takes up to a hundred times as long for powers of negative numbers as for those of positive ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from ... import backend
from ...backend.arrays.dtypes import FLOATS, HALF, bool_, float32
from ...backend.arrays.memory_format import row_major

MANY = 128  # from so many elements on, several NumPy calls are faster
SHORT = frozenset((-1, 0, 0.5, 1, 2))  # exponents that NumPy computes without a power function
PRODUCTS = frozenset((-4, -3, -2, 3, 4))  # exponents for which products are as accurate as a power


def power(xp: Any, base: Any, exponent: Any) -> Any:
    """base ** exponent, broadcasting; one of the two may be a number. Of bools it is a bool."""
    if getattr(exponent, "dtype", None) == bool_:
        return base | ~exponent
    if type(exponent) is ndarray:
        if type(base) is not ndarray and not exponent.flags.c_contiguous:
            exponent = row_major(exponent)  # in PyTorch the power of a number is contiguous
        few = exponent.size < MANY and getattr(base, "size", 1) < MANY
        return base**exponent if few or exponent.dtype not in FLOATS else _many(base, exponent)
    if exponent in SHORT or base.size < MANY or base.dtype not in FLOATS:
        return base**exponent
    return _many(base, exponent)


def _many(base: Any, exponent: Any) -> ndarray:
    """The power of large arrays; half types in float32."""
    dtype = (base if type(base) is ndarray else exponent).dtype
    wider = float32 if dtype in HALF else dtype
    base, exponent = np.asarray(base, wider), np.asarray(exponent, wider)
    number = float(exponent) if not exponent.ndim else math.nan
    result = _product(base, int(number)) if number in PRODUCTS else _by_magnitude(base, exponent)
    return result.astype(dtype, copy=False)


def _product(base: ndarray, n: int) -> ndarray:
    """base ** n for n in PRODUCTS."""
    out = np.square(base, out=backend.empty_like(np, base))
    if abs(n) == 3:
        out *= base
    elif abs(n) == 4:
        np.square(out, out=out)
    return out if n > 0 else np.reciprocal(out, out=out)


def _by_magnitude(base: ndarray, exponent: ndarray) -> ndarray:
    """|base| ** exponent with the sign of the power, or NaN."""
    if not (base < 0).any():
        return np.power(base, exponent)
    out = np.asarray(np.power(np.abs(base), exponent))
    half, whole = exponent * exponent.dtype.type(0.5), np.floor(exponent) == exponent
    odd = whole & (np.floor(half) != half)
    if odd.all():
        np.copysign(out, base, out=out)
    elif odd.any():
        out *= 1 - 2 * (odd & np.signbit(base)).astype(out.dtype)
    if not whole.all():
        out = backend.where(np, (base < 0) & ~whole & np.isfinite(base), out.dtype.type(math.nan), out)
    return out
