"""Forwards that call a function of SciPy, or of cupyx.scipy on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import float32
from ...backend.cpu.half import convert
from ...backend.cpu.half_table import MANY, looked_up


def of_scipy(name: str, ends: tuple[float, float] | None = None) -> Callable[[Any, Any], Any]:
    """The forward for a function of one array; half types are computed in float32 and rounded once.

    `ends` are those of a domain outside of which the result is NaN, where SciPy takes 6 us to say so.
    """
    cached: dict[Any, Any] = {}  # module -> its function

    def forward(xp: Any, x: Any) -> Any:
        function = cached.get(xp)
        if function is None:
            function = cached[xp] = getattr(backend.special(xp), name)
        if ends and type(x) is np.ndarray:
            x = _within(x, *ends)
        if x.itemsize > 2:
            return function(x)
        if type(x) is np.ndarray and x.size >= MANY:
            return looked_up(forward, x, {})
        return convert(function(convert(x, float32)), x.dtype)

    return forward


def _within(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """x with NaN in place of what lies outside of [low, high]."""
    inside = (x >= low) & (x <= high)
    return x if inside.all() else np.where(inside, x, x.dtype.type(np.nan))


def of_two(name: str) -> Callable[[Any, Any, Any], Any]:
    """The forward for a function of two arrays, or an array and a number, which SciPy would treat as float64."""
    cached: dict[Any, Any] = {}

    def forward(xp: Any, a: Any, b: Any) -> Any:
        function = cached.get(xp)
        if function is None:
            function = cached[xp] = getattr(backend.special(xp), name)
        if not hasattr(a, "dtype"):
            a = xp.asarray(a, b.dtype)
        elif not hasattr(b, "dtype"):
            b = xp.asarray(b, a.dtype)
        if a.itemsize > 2:
            return function(a, b)
        return convert(function(convert(a, float32), convert(b, float32)), a.dtype)

    return forward
