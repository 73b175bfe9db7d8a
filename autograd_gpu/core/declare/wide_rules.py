"""Rules of half types in float32: `wide_rules = True` of a block.

Squares, quotients and exponentials leave the range of float16 long before the gradient does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...backend.arrays.dtypes import HALF, float32


def in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """`rule` or joint rule, which gets half types as float32, and whose gradients are rounded once."""

    @functools.wraps(rule)
    def widened(F: Any, g: Any, *rest: Any) -> Any:
        dtype = next(x for x in g if x is not None).dtype if isinstance(g, (tuple, list)) else g.dtype
        if dtype not in HALF:
            return rule(F, g, *rest)
        result = rule(F, *[_wide(F, x) for x in (g, *rest)])
        return tuple([_rounded(F, x, dtype) for x in result]) if type(result) is tuple else _rounded(F, result, dtype)

    return widened


def _wide(F: Any, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)([_wide(F, item) for item in x])
    return F.cast(x, float32) if getattr(x, "dtype", None) in HALF else x


def _rounded(F: Any, x: Any, dtype: Any) -> Any:
    return x if x is None or x.dtype == dtype else F.cast(x, dtype)
