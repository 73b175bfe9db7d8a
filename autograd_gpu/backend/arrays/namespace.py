"""NumPy or CuPy by array or device, and the functions whose implementation depends on that choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cpu import lapack, numpy_ops, pool
from ..cuda import cusolver, exact, runtime
from .device import Device, require_memory

Array = Any  # numpy.ndarray or cupy.ndarray; CuPy ships no complete type stubs


def is_cuda(array: Any) -> bool:
    """Whether `array` is a CuPy array."""
    module = runtime.loaded()
    return module is not None and isinstance(array, module.ndarray)


def is_array(value: Any) -> bool:
    """Whether `value` is a NumPy or CuPy array."""
    return isinstance(value, np.ndarray) or is_cuda(value)


def namespace(*arrays: Any) -> Any:
    """The cupy module if any of `arrays` is a CuPy array, else numpy; Python and NumPy scalars do not matter."""
    module = runtime.loaded()
    if module is not None:
        for array in arrays:
            if isinstance(array, module.ndarray):
                return module
    return np


def limited(xp: Any, x: Any, low: Any, high: Any, out: Any = None) -> Any:
    """x limited to [low, high], in `out` if given; None is no bound."""
    if xp is np:
        return numpy_ops.limited(x, -np.inf if low is None else low, np.inf if high is None else high, out)
    x = x if low is None else xp.maximum(x, low, out=out)
    return x if high is None else xp.minimum(x, high, out=out)


def namespace_on(device: Device) -> Any:
    """The array module of `device`: numpy or cupy. RuntimeError if the CUDA device does not exist."""
    if device.type == "cpu":
        return np
    require_memory(device)
    return runtime.require_device(device.index or 0)


def make(device: Device, function: str, *args: Any, **kwargs: Any) -> Any:
    """Calls `function` of the array module, such as "zeros", with `device` as the current device."""
    if device.type == "cpu":
        return getattr(np, function)(*args, **kwargs)
    require_memory(device)
    with runtime.cupy_device(device):
        return getattr(runtime.cupy(), function)(*args, **kwargs)


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialized array; a large NumPy array reuses pooled memory (cpu/pool.py), as CuPy's own pool does."""
    return pool.empty(shape, dtype) if xp is np else xp.empty(shape, dtype)


def constant(xp: Any, value: float, dtype: Any) -> Any:
    """A scalar operand for a ufunc on arrays of `dtype`: for NumPy a 0-d array, which halves the call overhead."""
    return numpy_ops.constant(value, dtype) if xp is np else value


def constants(xp: Any, dtype: Any, *values: float) -> tuple[Any, ...]:
    """`constant` of several values."""
    return numpy_ops.constants(dtype, *values) if xp is np else values


def where(xp: Any, mask: Any, a: Any, b: Any) -> Any:
    """xp.where(mask, a, b) in the dtype of a and b: CuPy's has no bfloat16 loop, NumPy's is slow on large arrays."""
    if xp is not np:
        return exact.where(mask, a, b)
    many = type(mask) is np.ndarray and mask.size >= numpy_ops.MANY_CHOICES
    return numpy_ops.where(mask, a, b) if many else np.where(mask, a, b)


def special(xp: Any) -> Any:
    """scipy.special for NumPy, cupyx.scipy.special for CuPy."""
    return numpy_ops.special() if xp is np else runtime.special()


def decompositions(xp: Any) -> Any:
    """The module of matrix decompositions: cpu.lapack for NumPy, cuda.cusolver for CuPy, with the same functions."""
    return lapack if xp is np else cusolver
