"""Functions of one element as one CUDA kernel, forward and backward (backend/kernels/pointwise.py).

A block names the op's function once: `cuda = one_kernel("mish")`, and in `fused_cuda` `pulled("mish", g, x)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS

Array = Any


def one_kernel(name: str, forward: Callable[..., Array] | None = None) -> Callable[..., Array]:
    """forward(xp, x, *, attributes...) of an op on CuPy arrays: the function `name`, or `forward` for integers."""

    def run(xp: Any, x: Array, **attributes: Any) -> Array:
        if forward is not None and x.dtype not in FLOATS:
            return forward(xp, x, **attributes)
        return kernels.pointwise(name, kernels.contiguous(x), **attributes)

    return run


def pulled(name: str, g: Array, x: Array, **attributes: Any) -> list[Array]:
    """The gradient for x alone, g times the derivative of the function `name`, as a `fused_cuda` rule returns it."""
    return [kernels.pointwise_backward(name, *alike(g, x), **attributes)]


def alike(a: Array, b: Array) -> tuple[Array, Array]:
    """Two arrays as kernels take them: broadcast, contiguous, and promoted, which a plain backward does not do."""
    if a.shape != b.shape:
        a, b = backend.namespace(a).broadcast_arrays(a, b)
    if a.dtype != b.dtype:
        wide = np.promote_types(a.dtype, b.dtype)
        a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    return kernels.contiguous(a), kernels.contiguous(b)
