"""A cache of scalar kernel arguments in the types of their parameters.

CuPy passes its own `CScalar` as it is. For a Python number it makes one at each launch, with the wrong type for most
parameters; for a NumPy scalar, too, which would have to be made first. Sizes, strides and hyperparameters repeat, so
a dict lookup replaces both.
"""

from __future__ import annotations

import functools
from math import copysign
from typing import Any

import numpy as np

from ..arrays.dtypes import float32, float64, int32, int64, uint64
from ..cuda import runtime

_MAX_CACHED = 4096  # per dtype; counters of random numbers never repeat


class Scalars(dict[Any, Any]):
    """CuPy's scalars of one dtype, by value."""

    def __init__(self, dtype: np.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    @functools.cached_property
    def zeros(self) -> tuple[Any, Any]:
        """0 and -0.0, which are equal as keys."""
        return self.make(0), self.make(-0.0 if self.dtype.kind == "f" else 0)

    def of(self, value: Any) -> Any:
        """The scalar of a number, cached; TypeError for a 0-d array, which is not hashable."""
        return self[value] if value else self.zeros[copysign(1.0, value) < 0]

    def make(self, value: Any) -> Any:
        """A new scalar, not cached; OverflowError or ValueError if the value is out of the type's range."""
        return runtime.cupy()._core._scalar.CScalar(value, self.dtype)

    def __missing__(self, value: Any) -> Any:
        scalar = self.make(value)
        if len(self) >= _MAX_CACHED:
            self.clear()
        self[value] = scalar
        return scalar


class Structs:
    """The arguments of a parameter that is a struct: NumPy arrays of one element, which CuPy passes by value."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def make(self, value: np.ndarray) -> np.ndarray:
        if value.dtype != self.dtype:
            raise ValueError(f"the kernel takes {self.dtype} by value, not {value.dtype}")
        return value

    of = make


SCALARS = {dtype: Scalars(dtype) for dtype in (int32, int64, uint64, float32, float64)}  # the types of parameters
