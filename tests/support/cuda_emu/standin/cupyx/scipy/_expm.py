"""cupyx.scipy.linalg.expm as CuPy 14.2 composes it: always the [13/13] Padé approximant, for one matrix.

The number of squarings and the factor exp(mean of the diagonal) are computed on the host from numbers read off the
device, by the functions of `math`: an infinite norm and a large trace raise its OverflowError.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import cupy
import numpy as np
from cupy._call import call

PADE = [math.perm(26, 13) * math.comb(13, k) // math.perm(26, k) for k in range(14)]
NORM = 5.37  # up to which the approximant is exact


def expm(a: Any) -> Any:
    if a.size == 0:
        return cupy.zeros((0, 0), a.dtype)
    dtype = a.dtype if a.dtype.kind in "fc" else np.dtype(np.float64)
    mean = cupy.diag(a).sum() / a.shape[0]
    a = a - cupy.eye(a.shape[0], dtype=dtype) * mean
    norm = cupy.linalg.norm(a, ord=1).item()
    squarings = math.ceil(math.log2(norm / NORM)) + 1 if norm > NORM else 1
    a /= 2**squarings
    odd, even = _numerator(a, cupy.eye(a.shape[0], dtype=dtype), cupy.asarray(PADE, dtype=dtype))
    out = cupy.linalg.solve(even - odd, odd + even)
    for _ in range(squarings):
        out = out @ out
    out *= (cmath if mean.dtype.kind == "c" else math).exp(mean)
    return out


def _numerator(a: Any, one: Any, coefficients: Any) -> tuple[Any, Any]:
    """The odd and the even part."""
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    high_odd, low_odd, high_even, low_even = call("expm_inner", _polynomials, (one, a2, a4, a6, coefficients), {})
    return a @ (a6 @ high_odd + low_odd), a6 @ high_even + low_even


def _polynomials(one: Any, a2: Any, a4: Any, a6: Any, b: Any) -> list[Any]:
    """What CuPy fuses into one kernel."""
    return [b[13] * a6 + b[11] * a4 + b[9] * a2, b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one,
            b[12] * a6 + b[10] * a4 + b[8] * a2, b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one]
