"""Statistics of the rows of a matrix."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide

Array = np.ndarray
STATISTICS = {
    "mean": lambda x: x.mean(axis=1),
    "norm": lambda x: np.sqrt((x * x).sum(axis=1)),
    "nansum": lambda x: np.nansum(x, axis=1),
}


def row_statistic(name: str, x: Array) -> Array:
    """The mean, norm or nansum of each row of x (rows, cols); half types in float32."""
    return STATISTICS[name](x.astype(wide(x.dtype))).astype(x.dtype)


def row_variance(x: Array, divisor: float, root: bool = False) -> tuple[Array, Array]:
    """The sum of squared deviations of each row over `divisor`, or its square root, and the means."""
    numbers = x.astype(np.float64)
    mean = numbers.mean(axis=1)
    variance = np.square(numbers - mean[:, None]).sum(axis=1) / np.float64(divisor)
    return (np.sqrt(variance) if root else variance).astype(x.dtype), mean.astype(x.dtype)
