"""Dropout by a mask that is a few numbers, as kernels/dropout.cu computes it."""

from __future__ import annotations

import numpy as np

from ..arrays.dropout_mask import Mask, threshold
from ..arrays.dtypes import wide
from . import philox


def dropout(x: np.ndarray, mask: Mask, scale: float, shift: float = 0.0, dropped: float = 0.0) -> np.ndarray:
    """x * scale + shift where the mask is true, else `dropped`; a mask with fewer elements than x repeats."""
    kept = np.resize(np.repeat(mask_bits(mask), mask.per_bit), x.shape)
    dtype = wide(x.dtype)
    value = x.astype(dtype) * dtype.type(scale) + dtype.type(shift)
    return np.where(kept, value, dtype.type(dropped)).astype(x.dtype)


def mask_bits(mask: Mask) -> np.ndarray:
    """The bits of a mask: (count,), bool."""
    words = philox.words(mask.seed, mask.start, -(-mask.count // 4)).ravel()[: mask.count]
    return words < np.uint64(threshold(mask.keep))
