"""Quantization of arrays to float16, bfloat16 and float8 codes with a scale, on CPU and CUDA.

1. absmax is the largest finite absolute value of the array, or of each row along the last dimension.
2. The scale is the smallest power of two that brings absmax into the format's range (formats.py). It stays on the
   device.
3. A code is the value divided by the scale, rounded once. NaN stays NaN; infinity stays infinity, but becomes NaN in
   float8_e4m3fn, which has no infinity.

CUDA takes float32 and bfloat16 numbers below 2^-126 for zeros (kernels/loader.py).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..arrays.dtypes import FLOATS, as_dtype, float32
from ..cuda import runtime
from . import encoding
from .formats import FORMATS, needs_scale, scales

Array = Any  # numpy.ndarray or cupy.ndarray


class Quantized(NamedTuple):
    """A quantized array: codes * scale. Float8 codes are uint8; a scale of None means 1.

    The scale of a tensor has shape (), the scales of rows have the array's shape with a last dimension of 1.
    """

    codes: Array
    scale: Array | None
    dtype: np.dtype  # that the codes encode
    source: np.dtype  # of the array before quantization

    @property
    def nbytes(self) -> int:
        """The bytes of codes and scale."""
        return int(self.codes.nbytes) + (0 if self.scale is None else int(self.scale.nbytes))


def quantize(array: Array, dtype: object, granularity: str = "tensor") -> Quantized:
    """Quantizes `array` to float16, bfloat16, float8_e4m3fn or float8_e5m2, with a scale per "tensor" or per "row".

    TypeError for another `dtype`, and for one that is not smaller than that of the array.
    """
    target, source = as_dtype(dtype), as_dtype(array.dtype)
    if target not in FORMATS:
        raise TypeError(f"quantize: {target} is not supported; use one of {', '.join(map(str, FORMATS))}")
    if source not in FLOATS or target.itemsize >= source.itemsize:
        raise TypeError(f"quantize: an array of {source} takes no fewer bytes in {target}; leave it as it is")
    if granularity not in ("tensor", "row"):
        raise ValueError(f"quantize: granularity must be 'tensor' or 'row', not {granularity!r}")
    by_row = granularity == "row" and array.ndim > 0
    codes, scale = _codes(array, target, by_row)
    if scale is not None:
        scale = scale.reshape((*array.shape[:-1], 1) if by_row else ())
    return Quantized(codes.reshape(array.shape), scale, target, source)


def dequantize(quantized: Quantized) -> Array:
    """The array in its source dtype, in C order."""
    codes, scale, dtype, source = quantized
    return _numbers(codes, scale, dtype, source)


def to_float8(array: Array, dtype: np.dtype) -> Array:
    """The uint8 codes of `array`, of any dtype, without a scale; finite values beyond the range saturate."""
    array = array if array.dtype in FLOATS else array.astype(float32)
    return _codes(array, dtype, scaled=False)[0].reshape(array.shape)


def from_float8(codes: Array, dtype: np.dtype, target: np.dtype) -> Array:
    """The values of uint8 `codes` of the float8 `dtype`, in the floating dtype `target`."""
    return _numbers(codes, None, dtype, target)


def _matrix(array: Array, by_row: bool) -> Array:
    """`array` as a contiguous matrix with one row per scale."""
    xp = np if isinstance(array, np.ndarray) else runtime.cupy()
    shape = (math.prod(array.shape[:-1]), array.shape[-1]) if by_row else (1, array.size)
    return xp.ascontiguousarray(array).reshape(shape)


def _device_context(array: Array) -> Any:
    """A context in which the device of `array` is current and NumPy ignores floating-point errors such as underflow."""
    return np.errstate(all="ignore") if isinstance(array, np.ndarray) else array.device


def _codes(array: Array, dtype: np.dtype, by_row: bool = False, scaled: bool = True) -> tuple[Array, Array | None]:
    """The codes of `array` as a matrix, and the scale of each row; None for scales of 1."""
    with _device_context(array):
        matrix, format = _matrix(array, by_row), FORMATS[dtype]
        if not isinstance(matrix, np.ndarray):
            return kernels.quantize(matrix, dtype, scaled)
        if not scaled or not needs_scale(matrix.dtype, format):
            return encoding.encode(matrix, format, None), None
        scale = scales(encoding.largest(matrix), format, matrix.dtype)
        return encoding.encode(matrix, format, scale), scale.factor[:, None]


def _numbers(codes: Array, scale: Array | None, dtype: np.dtype, target: np.dtype) -> Array:
    with _device_context(codes):
        matrix = _matrix(codes, by_row=scale is not None and scale.ndim > 0)
        factor = None if scale is None else _matrix(scale, by_row=False).reshape(len(matrix), 1)
        if not isinstance(matrix, np.ndarray):
            return kernels.dequantize(matrix, factor, dtype, target).reshape(codes.shape)
        return encoding.decode(matrix, FORMATS[dtype], factor, target).reshape(codes.shape)
