"""Functions with one formula near 0 and another one elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import wide
from .memory_format import empty_like
from .namespace import where


def in_two_ranges(
    xp: Any, x: Any, limit: float, near: Callable[[Any], Any], far: Callable[[Any], Any], signed: bool = False
) -> Any:
    """near(x) for |x| < limit, or for x < limit if `signed`, and far(x) elsewhere; half types in float32.

    Each function gets numbers of its own range only: NumPy selects them, CuPy replaces the others by 0 or `limit`.
    """
    z = x.astype(wide(x.dtype), copy=False)
    small = (z if signed else abs(z)) < limit
    if xp is np and z.ndim:
        out = empty_like(np, z)
        out[small], out[~small] = near(z[small]), far(z[~small])
    else:
        inside, outside = xp.where(small, z, z.dtype.type(0)), xp.where(small, z.dtype.type(limit), z)
        out = where(xp, small, near(inside), far(outside))
    return out.astype(x.dtype, copy=False)
