"""What the values of NumPy arrays tell at once: of CuPy arrays the answer waits for the device, or is not given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cpu import numpy_ops
from ..cuda import runtime

PYTHON = 64  # up to so many elements Python is faster than NumPy at a check of all


def read(*numbers: Any) -> list[float]:
    """The values of 0-d arrays of one dtype; of CuPy arrays by one copy to the host, for which it waits."""
    if isinstance(numbers[0], (np.ndarray, np.generic)):
        return [float(number) for number in numbers]
    values: list[float] = runtime.cupy().stack(numbers).tolist()
    return values


def few(x: Any, limit: int | None = None) -> bool:
    """Whether x is a NumPy array of at most `limit` elements, for which calls cost more than arithmetic."""
    return isinstance(x, (np.ndarray, np.generic)) and x.size <= (numpy_ops.FEW if limit is None else limit)


def seen_ends(x: Any) -> tuple[Any, Any] | None:
    """The minimum and the maximum of a NumPy array, NaN if there is one; None for an empty or a CuPy array."""
    if not isinstance(x, (np.ndarray, np.generic)) or not x.size:
        return None
    array: Any = x
    if array.dtype.kind in "iu":
        return numpy_ops.ends(array)
    return numpy_ops.min_reduce(array, None), numpy_ops.max_reduce(array, None)


def seen_outside(x: Any, low: float, high: float = np.inf) -> bool:
    """Whether a NumPy array has elements outside of [low, high], or NaN; False for a CuPy array."""
    if few(x, PYTHON):
        return not all(low <= number <= high for number in x.ravel().tolist())
    ends = seen_ends(x)
    return ends is not None and not (low <= ends[0] and ends[1] <= high)


def many(x: Any, limit: int) -> bool:
    """Whether x is a NumPy array of more than `limit` elements."""
    return isinstance(x, np.ndarray) and x.size > limit


def seen_any(mask: Any) -> bool:
    """Whether an element of a NumPy array is true; False for a CuPy array."""
    return isinstance(mask, (np.ndarray, np.generic)) and bool(np.count_nonzero(mask) > 0)


def seen_none(mask: Any) -> bool:
    """Whether no element of a NumPy array is true; False for a CuPy array."""
    return (type(mask) is np.ndarray or isinstance(mask, np.generic)) and not np.count_nonzero(mask)
