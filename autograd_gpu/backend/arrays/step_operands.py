"""The arrays of a loop over the steps of sequences, in the form in which NumPy or the kernels compute a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels
from .dtypes import HALF, float32

# From so many steps on NumPy's products take a copy of w_hhᵀ: with the transposed view OpenBLAS takes 1.2 to 3.7 times
# as long (16 rows and 32 units: 4.2 us instead of 1.8; 128 units: 46 instead of 25), and the copy as long as 4 to 30
# steps save.
MANY_STEPS = 16


def prepared(xp: Any, *arrays: Any) -> list[Any]:
    """The arrays as the loops take them: NumPy's half types as float32; CuPy's contiguous, for the kernels."""
    if xp is not np:
        return [kernels.contiguous(x) for x in arrays]
    return [x.astype(float32) if x is not None and x.dtype in HALF else x for x in arrays]


def turned(xp: Any, weight: Any, steps: int) -> Any:
    """weightᵀ, as the right operand of a product at each of so many steps."""
    return np.ascontiguousarray(weight.T) if xp is np and steps >= MANY_STEPS else weight.T
