"""Quantization of matrices with a scale per row, and dequantization."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.quantization.formats import FORMATS, needs_scale, scales


@np.errstate(all="ignore")
def quantize(
    x: np.ndarray, dtype: np.dtype, scaled: bool = True, flushes: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """The codes of x (rows, cols) in `dtype`, and the scale of each row, (rows, 1), or None.

    With `flushes` float32 numbers below 2^-126 become zeros before and after each operation, as on a GPU.
    """
    flush = flushed if flushes else np.asarray
    format, values = FORMATS[dtype], flush(x.astype(wide(x.dtype)))
    finite = np.isfinite(values)
    largest = np.where(finite, np.abs(values), 0).max(axis=1, initial=0)
    scale = scales(largest, format, x.dtype) if scaled and needs_scale(x.dtype, format) else None
    if scale is not None:
        values = flush(values * scale.inverse[:, None])
    limit = format.largest if scale is None or scale.limit is None else scale.limit[:, None]
    codes = np.where(finite, np.clip(values, -limit, limit), values).astype(dtype).view(format.codes)
    return codes, None if scale is None else scale.factor[:, None]


@np.errstate(all="ignore")
def dequantize(
    codes: np.ndarray, scale: np.ndarray | None, dtype: np.dtype, source: np.dtype, flushes: bool = False
) -> np.ndarray:
    """codes (rows, cols) of `dtype` times the scale of each row (rows, 1), None for 1, in the dtype `source`."""
    values = codes.view(dtype).astype(wide(source))
    product = values if scale is None else values * scale
    return (flushed(product) if flushes else product).astype(source)


def flushed(x: np.ndarray) -> np.ndarray:
    """x with float32 numbers below 2^-126 as zeros of the same sign; float64 as it is."""
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < np.finfo(np.float32).smallest_normal, np.copysign(np.float32(0), x), x)
