"""Ufuncs whose numbers on a GPU are not NumPy's: the formulas that CuPy's kernels have, read in its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _computed(x: np.ndarray) -> np.ndarray:
    """Half types are computed with in float32."""
    return x.astype(np.float32) if x.dtype.kind in "fV" and x.itemsize == 2 else x


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient is rounded before it is floored: 1.0 // 0.1 is 10, where NumPy says 9."""
    if a.dtype.kind in "iu":
        return np.floor_divide(a, b)
    return np.floor(_computed(a) / _computed(b))


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - floor(a / b) * b: NaN for an infinite b, of any sign where a / b is large."""
    if a.dtype.kind in "iu":
        return np.remainder(a, b)
    return _computed(a) - floor_divide(a, b) * _computed(b)


def divmod_(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return floor_divide(a, b), remainder(a, b)


def fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers go through float64, which has 53 bits."""
    if a.dtype.kind not in "iu":
        return np.fmod(a, b)
    exact = np.fmod(a.astype(np.float64), b.astype(np.float64))
    return np.where(np.equal(b, 0), 0, exact).astype(a.dtype)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers to a negative power are 0, 1 or -1, where NumPy raises."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    inverse = np.where(np.equal(a, -1), np.where(np.bitwise_and(b, 1), -1, 1), np.equal(a, 1))
    return np.where(np.less(b, 0), inverse, np.power(a, np.abs(b)))


def sign(a: np.ndarray) -> np.ndarray:
    """(a > 0) - (a < 0): 0 for NaN, which NumPy hands on."""
    if a.dtype.kind not in "fV":
        return np.sign(a)
    return (np.greater(a, 0).view(np.int8) - np.less(a, 0).view(np.int8)).astype(a.dtype)


def clip(a: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """NaN as a bound is no bound, where NumPy gives NaN."""
    inside = np.where(np.less(a, low), low, np.where(np.greater(a, high), high, a))
    return np.where(np.greater(low, high), high, inside)


OWN: dict[str, Callable[..., Any]] = {
    "floor_divide": floor_divide, "remainder": remainder, "mod": remainder, "divmod": divmod_, "fmod": fmod,
    "power": power, "pow": power, "sign": sign, "fix": np.trunc, "sinc": np.sinc, "i0": np.i0,
}  # fmt: skip
