"""The formats of quantized arrays, and the scales that bring values into the range of a format.

A scale is a power of two, so multiplication and division by it are exact: a code is the value rounded once, to nearest
even, and both devices give the same codes. A scale need not fill the range, since the relative error of a floating
format hardly depends on the magnitude (docs/kernels.md has a table).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from ml_dtypes import finfo

from ..arrays.dtypes import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, uint8


class Format(NamedTuple):
    """A floating format; an array whose largest absolute value is in [unscaled, largest] needs no scale."""

    dtype: np.dtype
    codes: np.dtype  # of the array of codes: CuPy has no float8
    exponent: int  # of the largest value
    largest: float
    unscaled: float  # an array whose largest absolute value is smaller gets a scale, else too many values underflow


FORMATS = {
    # 2^-25, half of float16's smallest subnormal, is 2^-35 of 2^10. bfloat16 has the range of float32.
    float16: Format(float16, float16, 15, 65504.0, 2.0**10),
    bfloat16: Format(bfloat16, bfloat16, 127, float(finfo(bfloat16).max), 2.0**-100),
    float8_e4m3fn: Format(float8_e4m3fn, uint8, 8, 448.0, math.inf),
    float8_e5m2: Format(float8_e5m2, uint8, 15, 57344.0, math.inf),
}


def needs_scale(source: np.dtype, format: Format) -> bool:
    """Whether arrays of dtype `source` may need a scale in `format`; float32 needs none in bfloat16."""
    return not (source == float32 and format.dtype == bfloat16)


class Scales(NamedTuple):
    """The scales of the rows of a matrix: value = factor * code; `inverse` is exactly 1 / factor.

    `limit` is the largest code to use, None for the format's largest. It is smaller where rounding up would leave the
    range of the source dtype: float32's largest value would come back as infinity.
    """

    factor: np.ndarray
    inverse: np.ndarray
    limit: np.ndarray | None


def scales(largest: np.ndarray, format: Format, source: np.dtype) -> Scales:
    """The scales of rows of dtype `source` whose largest finite absolute values are `largest`.

    `largest` and the scales have the accumulation dtype of `source`. Computed on the bits as integers, which is twice
    as fast as frexp and ldexp; that matters for arrays of a few thousand elements.
    """
    integers, digits, bias, fraction, top = _layout(largest.dtype, format)
    fields = largest.view(integers)
    exponents = fields >> digits
    over = (fields & fraction) > top
    powers = exponents - format.exponent
    powers += over
    np.maximum(powers, 1, out=powers)  # a normal number: CUDA flushes subnormals to zero
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
    """The layout of a floating dtype: (integer dtype, mantissa bits, exponent bias, mantissa mask), and the mantissa
    of the format's largest value."""
    bits, digits = f"i{dtype.itemsize}", int(finfo(dtype).nmant)
    fraction = (1 << digits) - 1
    return bits, digits, int(finfo(dtype).maxexp) - 1, fraction, int(dtype.type(format.largest).view(bits)) & fraction
