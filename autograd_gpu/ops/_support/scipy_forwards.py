"""Forwards that call a function of SciPy, or of cupyx.scipy on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import backend
from ...backend.arrays.dtypes import float32


def of_scipy(name: str) -> Callable[[Any, Any], Any]:
    """The forward for a function of one array; half types are computed in float32 and rounded once."""
    found: dict[Any, Any] = {}  # module -> its function

    def forward(xp: Any, x: Any) -> Any:
        function = found.get(xp)
        if function is None:
            function = found[xp] = getattr(backend.special(xp), name)
        return function(x) if x.itemsize > 2 else function(x.astype(float32)).astype(x.dtype)

    return forward


def of_two(name: str) -> Callable[[Any, Any, Any], Any]:
    """The forward for a function of two arrays, or an array and a number, which SciPy would treat as float64."""
    found: dict[Any, Any] = {}

    def forward(xp: Any, a: Any, b: Any) -> Any:
        function = found.get(xp)
        if function is None:
            function = found[xp] = getattr(backend.special(xp), name)
        if not hasattr(a, "dtype"):
            a = xp.asarray(a, b.dtype)
        elif not hasattr(b, "dtype"):
            b = xp.asarray(b, a.dtype)
        return function(a, b) if a.itemsize > 2 else function(a.astype(float32), b.astype(float32)).astype(a.dtype)

    return forward
