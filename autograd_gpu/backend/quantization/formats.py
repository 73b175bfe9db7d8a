"""The formats that arrays are quantized to, and the scales that bring numbers into their range.

A scale is a power of two, so that dividing by it and multiplying by it are exact: a code is the number rounded once, to
nearest even, and both devices give the same codes. What a scale need not do is fill the range: the error of a floating
format hardly depends on where in its range numbers lie (docs/kernels.md has a table).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from ml_dtypes import finfo

from ..arrays.dtypes import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, uint8


class Format(NamedTuple):
    """A floating format; numbers from `unscaled` to `largest` in size are its without a scale."""

    dtype: np.dtype
    codes: np.dtype  # of the array that holds them: CuPy has no float8
    exponent: int  # of the largest number
    largest: float
    unscaled: float  # an array whose largest number is smaller gets a scale: too many others would become 0


FORMATS = {
    # 2^-25, half of float16's smallest number, is 2^-35 of 2^10. bfloat16 has the range of float32.
    float16: Format(float16, float16, 15, 65504.0, 2.0**10),
    bfloat16: Format(bfloat16, bfloat16, 127, float(finfo(bfloat16).max), 2.0**-100),
    float8_e4m3fn: Format(float8_e4m3fn, uint8, 8, 448.0, math.inf),
    float8_e5m2: Format(float8_e5m2, uint8, 15, 57344.0, math.inf),
}


def needs_scale(source: np.dtype, format: Format) -> bool:
    return not (source == float32 and format.dtype == bfloat16)


class Scales(NamedTuple):
    """`factor` times a code is a number; `inverse` is 1 / factor, exactly.

    `limit` is the largest code that may be used, None for the format's largest. It is less than that where rounding up
    would lead beyond the range of the array's own dtype: float32's largest number would come back as infinity.
    """

    factor: np.ndarray
    inverse: np.ndarray
    limit: np.ndarray | None


def scales(largest: np.ndarray, format: Format, source: np.dtype) -> Scales:
    """The scales of arrays of dtype `source` whose largest finite numbers are `largest`, in the wide dtype.

    In integers: twice as fast as frexp and ldexp, which counts for an array of a few thousand elements.
    """
    bits, digits, bias, fraction, top = _layout(largest.dtype, format)
    fields = largest.view(bits)
    exponents = fields >> digits
    over = (fields & fraction) > top
    powers = exponents - format.exponent
    powers += over
    np.maximum(powers, 1, out=powers)  # a normal number: CUDA flushes others to zero, also if they are scales
    as_it_is = fields == 0
    if format.unscaled <= format.largest:
        as_it_is |= (largest >= format.unscaled) & (largest <= format.largest)
    powers[as_it_is] = bias
    crowded = over & (exponents >= finfo(source).maxexp - 1 + bias)
    limit = None
    if crowded.any():
        last = (2 - 2.0 ** -finfo(format.dtype).nmant) * 2.0 ** (format.exponent - 1)  # before 2^exponent
        limit = np.where(crowded, last, format.largest).astype(largest.dtype)
    return Scales((powers << digits).view(largest.dtype), ((2 * bias - powers) << digits).view(largest.dtype), limit)


@functools.cache
def _layout(dtype: np.dtype, format: Format) -> tuple[str, int, int, int, int]:
    """Of a number: its bits as integers, the digits behind the point, what is added to the exponent, a mask of the
    digits; and the digits of the format's largest number."""
    bits, digits = f"i{dtype.itemsize}", int(finfo(dtype).nmant)
    fraction = (1 << digits) - 1
    return bits, digits, int(finfo(dtype).maxexp) - 1, fraction, int(dtype.type(format.largest).view(bits)) & fraction
