"""Numbers as a launch reads them: in the bytes of the parameter's type, made once for each value.

CuPy takes a `CScalar` of its own as it is. Of a Python number it makes one at each launch, of the wrong type for most
parameters; of a NumPy scalar it makes one, too, for which ours would have to be made first. Sizes, strides and the
numbers of an optimizer come again, so that a look into a dictionary replaces both.
"""

from __future__ import annotations

from math import copysign
from typing import Any

import numpy as np

from ..arrays.dtypes import float32, float64, int32, int64, uint64
from ..cuda import runtime

_KEPT = 4096  # numbers of a dtype; counters of random numbers never come again


class Scalars(dict[Any, Any]):
    """CuPy's scalars of one dtype by their values."""

    def __init__(self, dtype: np.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self._zeros: tuple[Any, ...] = ()  # 0.0 and -0.0, which would be one key

    def make(self, value: Any) -> Any:
        """One that is not kept; OverflowError or ValueError where the type cannot hold the value."""
        return runtime.cupy()._core._scalar.CScalar(value, self.dtype)

    def __missing__(self, value: Any) -> Any:
        if value == 0 and self._zeros:
            return self._zeros[copysign(1.0, value) < 0]
        if value == 0 and self.dtype.kind == "f":
            self._zeros = self.make(0.0), self.make(-0.0)
            return self[value]
        scalar = self.make(value)
        if len(self) >= _KEPT:
            self.clear()
        self[value] = scalar
        return scalar


SCALARS = {dtype: Scalars(dtype) for dtype in (int32, int64, uint64, float32, float64)}  # the types of parameters
