"""Cumulative sums, products and extremes of NumPy and CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cpu import scans


def accumulate(xp: Any, ufunc: str, x: Any, axis: int) -> Any:
    """ufunc.accumulate of add, multiply, maximum, minimum or logaddexp; CuPy has that of the first two only."""
    if xp is np:
        return scans.accumulate(getattr(np, ufunc), x, axis)
    if ufunc in ("add", "multiply"):
        return (xp.cumsum if ufunc == "add" else xp.cumprod)(x, axis=axis)
    combine, step, x = getattr(xp, ufunc), 1, xp.moveaxis(x, axis, -1)
    while step < x.shape[-1]:
        further = x.copy()
        further[..., step:] = combine(x[..., :-step], x[..., step:])
        x, step = further, 2 * step
    return xp.moveaxis(x, -1, axis)
