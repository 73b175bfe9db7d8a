"""Quantization of matrices with a scale per row, and dequantization; see ../quantization/quantize.py.

Rows that fit in a block's registers are read once. For longer rows, such as an array with one scale, a first launch
finds the largest absolute value.
"""

from __future__ import annotations

import numpy as np

from ..arrays.dtypes import bfloat16, float8_e4m3fn, float8_e5m2, float16, wide
from ..cuda import runtime
from ..quantization.formats import FORMATS, needs_scale
from .constants import QUANTIZE_STRIPS
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import VECTOR, held_tiles, row_tiles, tiles, widest

FILE = "quantize.cu"
STRUCTS = {float16: "Float16", bfloat16: "BFloat16", float8_e4m3fn: "E4M3", float8_e5m2: "E5M2"}


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        x, out = Parameter("x", "read", dtype), Parameter("out", "write", dtype)
        maxima = Parameter("largest", "write", wide(dtype))
        known, scale = Parameter("largest", "read", wide(dtype), True), Parameter("scale", "write", wide(dtype), True)
        factor = Parameter("scale", "read", wide(dtype), True)
        for width in (VECTOR // dtype.itemsize, 1):
            declare(f"absmax<{name}, {width}>", FILE, "absmax", (x, maxima, *SIZE), unit=f"{name}, {width}")
            for target, struct in STRUCTS.items():
                if target.itemsize >= dtype.itemsize:
                    continue
                codes = FORMATS[target].codes
                to, back = Parameter("codes", "write", codes), Parameter("codes", "read", codes)
                types = f"{name}, {struct}, {width}"
                parameters = (x, known, to, scale, *SIZE)
                declare(f"quantize<{types}>", FILE, "quantize", parameters, unit=types)
                declare(f"dequantize<{types}>", FILE, "dequantize", (back, factor, out, *SIZE), unit=types)


_declare()


def quantize(x: Array, dtype: np.dtype, scaled: bool = True) -> tuple[Array, Array | None]:
    """The codes of x (rows, cols) in `dtype`, and the scale of each row, (rows, 1), in float32 or wider.

    The scale is None for float32 to bfloat16, and without `scaled`, where finite values saturate.
    """
    check_array("quantize", "x", x)
    source, (rows, cols) = c_name("quantize", x.dtype), x.shape
    xp, format = runtime.cupy(), FORMATS[dtype]
    codes = xp.empty(x.shape, format.codes)
    width = widest(cols, x.itemsize, x)
    instance = f"quantize<{source}, {STRUCTS[dtype]}, {width}>"
    if not (scaled and needs_scale(x.dtype, format)):
        launch(instance, row_tiles(rows, cols, width, x.itemsize), x, None, codes, None, rows, cols)
        return codes, None
    factor, shape = xp.empty((rows, 1), wide(x.dtype)), held_tiles(rows, cols, width, x.itemsize, QUANTIZE_STRIPS)
    if not cols:
        factor.fill(1)
    elif cols <= shape[1][0] * QUANTIZE_STRIPS * width:
        launch(instance, shape, x, None, codes, factor, rows, cols)
    else:
        shape = row_tiles(rows, cols, width, x.itemsize)
        largest = xp.empty((rows, shape[0][1]), factor.dtype)
        launch(f"absmax<{source}, {width}>", shape, x, largest, rows, cols)
        launch(instance, shape, x, largest, codes, factor, rows, cols)
    return codes, factor


def dequantize(codes: Array, scale: Array | None, dtype: np.dtype, source: np.dtype) -> Array:
    """codes (rows, cols) of `dtype` times the scale of each row (rows, 1), None for 1, in the dtype `source`."""
    check_array("dequantize", "codes", codes)
    name, (rows, cols) = c_name("dequantize", source), codes.shape
    if scale is not None:
        check_array("dequantize", "scale", scale, (rows, 1))
    out = runtime.cupy().empty(codes.shape, source)
    width = widest(cols, source.itemsize, codes)
    shape = tiles(rows, cols, width, source.itemsize)
    launch(f"dequantize<{name}, {STRUCTS[dtype]}, {width}>", shape, codes, scale, out, rows, cols)
    return out
