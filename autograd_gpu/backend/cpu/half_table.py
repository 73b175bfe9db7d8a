"""Functions of one half-precision number as a table of their 65536 results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.dtypes import float32
from ..arrays.memory_format import empty_like, memory_order
from .half import convert

BLOCK = 1 << 16  # elements
MANY = 1 << 17  # half-precision numbers from which a table of the results for all of them takes less time


@functools.lru_cache(maxsize=64)
def _results(function: Callable[..., Any], dtype: np.dtype, attributes: tuple[tuple[str, Any], ...]) -> np.ndarray:
    """function(np, x, **attributes), rounded once, for each x of a half type, in the order of their bits."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        return convert(function(np, convert(numbers, float32), **dict(attributes)), dtype)


def looked_up(function: Callable[..., Any], x: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """function(np, x, **attributes), elementwise, for a large array of a half type, which has 65536 numbers only."""
    table = _results(function, x.dtype, tuple(attributes.items()))
    out, order = empty_like(np, x), memory_order(x)
    codes, target = (array.transpose(order).reshape(-1) for array in (x, out))
    codes, index = codes.view(np.uint16), np.empty(BLOCK, np.intp)
    for i in range(0, x.size, BLOCK):
        part = index[: min(BLOCK, x.size - i)]
        part[...] = codes[i : i + BLOCK]
        table.take(part, out=target[i : i + BLOCK], mode="clip")  # mode "raise" would copy the result
    return out
