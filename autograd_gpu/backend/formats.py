"""The formats that arrays are quantized to, and the scales that bring numbers into their range.

A scale is a power of two, so that dividing by it and multiplying by it are exact: a code is the number rounded once, to
nearest even, and both devices give the same codes. What a scale need not do is fill the range: the error of a floating
format hardly depends on where in its range numbers lie (docs/kernels.md has a table).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from ml_dtypes import finfo

from .dtypes import HALF, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, uint8


class Format(NamedTuple):
    """A floating format; numbers from `unscaled` to `largest` in size are its without a scale."""

    dtype: np.dtype
    codes: np.dtype  # of the array that holds them: CuPy has no float8
    exponent: int  # of the largest number
    largest: float
    unscaled: float  # an array whose largest number is smaller gets a scale: too many of the others would be subnormal


FORMATS = {
    # 2^-25, half of float16's smallest number, is 2^-21 of 2^-4. bfloat16 has the range of float32.
    float16: Format(float16, float16, 15, 65504.0, 2.0**-4),
    bfloat16: Format(bfloat16, bfloat16, 127, float(finfo(bfloat16).max), 2.0**-100),
    float8_e4m3fn: Format(float8_e4m3fn, uint8, 8, 448.0, math.inf),
    float8_e5m2: Format(float8_e5m2, uint8, 15, 57344.0, math.inf),
}


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype that numbers of `dtype` are scaled in; scales have it, too."""
    return float32 if dtype in HALF else dtype


def needs_scale(source: np.dtype, format: Format) -> bool:
    return not (source == float32 and format.dtype == bfloat16)


class Scales(NamedTuple):
    """`factor` times a code is a number; `inverse` is 1 / factor, exactly.

    `limit` is the largest code that may be used. It is less than the format's largest where rounding up would lead
    beyond the range of the array's own dtype: float32's largest number would come back as infinity.
    """

    factor: np.ndarray
    inverse: np.ndarray
    limit: np.ndarray


def scales(largest: np.ndarray, format: Format, source: np.dtype) -> Scales:
    """The scales of arrays of dtype `source` whose largest finite numbers are `largest`, in the wide dtype."""
    fraction, exponent = np.frexp(largest)  # fraction in [0.5, 1), or 0
    over = fraction > math.frexp(format.largest)[0]
    lowest = finfo(largest.dtype).minexp  # of a normal number: CUDA flushes others to zero, also if they are scales
    powers = np.maximum(exponent - 1 - format.exponent + over, lowest)
    as_it_is = (largest == 0) | ((format.unscaled <= largest) & (largest <= format.largest))
    powers = np.where(as_it_is, 0, powers)
    last = (2 - 2.0 ** -finfo(format.dtype).nmant) * 2.0 ** (format.exponent - 1)  # before 2^exponent
    limit = np.where(over & (exponent == finfo(source).maxexp) & ~as_it_is, last, format.largest)
    one = largest.dtype.type(1)
    return Scales(np.ldexp(one, powers), np.ldexp(one, -powers), limit.astype(largest.dtype))
