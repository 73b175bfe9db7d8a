"""Elementwise functions in a few passes of NumPy, where its own loop or SciPy's takes one number at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import FULL_FLOATS, float32, float64
from .blocks import BLOCK, DOUBLES, elementwise

MANY = 1024  # elements from which several passes take less time than one slow loop


def in_passes(slow: Callable[..., Any], fast: Callable[..., Any], double: bool = False) -> Callable[..., Any]:
    """slow(xp, *arrays); for many floats on the CPU fast(*arrays), by blocks.

    `double` is for a `fast` that needs the bits of float64: it gets float32 in float64, and the result is rounded once.
    Where the result of `fast` has a NaN, `slow` computes the block: so `fast` need not know special values.
    """
    dtypes = (float32,) if double else FULL_FLOATS

    def block(xp: Any, *arrays: Any) -> Any:
        head = next(array for array in arrays if getattr(array, "ndim", 0))
        dtype = float64 if double else head.dtype
        out = fast(*[np.asarray(array, head.dtype).astype(dtype, copy=False) for array in arrays])
        if np.isnan(out).any():
            return slow(xp, *arrays)
        return out.astype(head.dtype, copy=False)

    def forward(xp: Any, *arrays: Any) -> Any:
        for array in arrays:
            if type(array) is np.ndarray and array.ndim and array.size >= MANY and array.dtype in dtypes:
                return elementwise(block, arrays, {}, DOUBLES if double else BLOCK)
        return slow(xp, *arrays)

    return forward


def in_float64(slow: Callable[..., Any], fast: Callable[..., Any]) -> Callable[..., Any]:
    """in_passes with double precision."""
    return in_passes(slow, fast, double=True)
