"""Functions of one element that are no formulas as one CUDA kernel (kernels/include/functions.cuh).

A block names the op's function once: `cuda = one_kernel("sinc")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS

Array = Any


def one_kernel(name: str, forward: Callable[..., Array] | None = None) -> Callable[..., Array]:
    """forward(xp, x, *, attributes...) of an op on CuPy arrays: the function `name`, or `forward` for integers."""

    def run(xp: Any, x: Array, **attributes: Any) -> Array:
        if forward is not None and x.dtype not in FLOATS:
            return forward(xp, x, **attributes)
        return kernels.elementwise(kernels.written(name, **attributes), kernels.contiguous(x))[0]

    return run
