"""Quantization of matrices with a scale per row, and dequantization."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.quantization.formats import FORMATS, needs_scale, scales


@np.errstate(all="ignore")
def quantize(x: np.ndarray, dtype: np.dtype, scaled: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
    """The codes of x (rows, cols) in `dtype`, and the scale of each row, (rows, 1), or None."""
    format, values = FORMATS[dtype], x.astype(wide(x.dtype))
    finite = np.isfinite(values)
    largest = np.where(finite, np.abs(values), 0).max(axis=1, initial=0)
    scale = scales(largest, format, x.dtype) if scaled and needs_scale(x.dtype, format) else None
    if scale is not None:
        values = values * scale.inverse[:, None]
    limit = format.largest if scale is None or scale.limit is None else scale.limit[:, None]
    codes = np.where(finite, np.clip(values, -limit, limit), values).astype(dtype).view(format.codes)
    return codes, None if scale is None else scale.factor[:, None]


@np.errstate(all="ignore")
def dequantize(codes: np.ndarray, scale: np.ndarray | None, dtype: np.dtype, source: np.dtype) -> np.ndarray:
    """codes (rows, cols) of `dtype` times the scale of each row (rows, 1), None for 1, in the dtype `source`."""
    values = codes.view(dtype).astype(wide(source))
    return (values if scale is None else values * scale).astype(source)
