"""The only way to a kernel: arguments are checked and get exactly the types that the kernel reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import counters, cuda
from . import loader
from .instances import C_NAMES, INSTANCES, Parameter
from .tiles import Launch

Array = Any  # cupy.ndarray


def launch(name: str, shape: Launch, *arguments: Any, label: str | None = None) -> None:
    """Runs the instance `name` on the current stream; an empty grid does nothing.

    Messages and the profiler call it `label`, or by the template's name.
    """
    grid, block = shape
    if 0 in grid:
        return
    _, kernel, parameters, _ = INSTANCES[name]
    kernel = label or kernel
    device = cuda.cupy().cuda.runtime.getDevice()
    typed = [_typed(kernel, p, value, device) for p, value in zip(parameters, arguments, strict=True)]
    loader.function(name, device)(grid, block, tuple(typed))
    if counters.ACTIVE:
        counters.launch(kernel)


def _typed(kernel: str, parameter: Parameter, value: Any, device: int) -> Any:
    """`value` as exactly what `parameter` takes: a NumPy scalar, or an array that was checked."""
    name, kind, dtype, optional = parameter
    if kind == "scalar":
        return dtype.type(value)
    if value is None and optional:
        return None  # CuPy passes a null pointer
    if value.dtype != dtype:
        raise TypeError(f"{kernel}: {name} must be {dtype}, not {value.dtype}; convert it with astype")
    if not value.flags.c_contiguous:
        raise ValueError(f"{kernel}: {name} must be contiguous; copy it with cupy.ascontiguousarray")
    if value.device.id != device:
        raise RuntimeError(
            f"{kernel}: {name} is on cuda:{value.device.id}, but the current device is cuda:{device}; "
            f"call inside `with cupy.cuda.Device({value.device.id}):`"
        )
    return value


def check_array(kernel: str, name: str, array: Array, shape: tuple[int, ...] | None = None) -> None:
    if not isinstance(array, cuda.cupy().ndarray):
        raise TypeError(f"{kernel}: {name} must be a CuPy array, not {type(array).__name__}; move it with cupy.asarray")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{kernel}: {name} must have shape {shape}, not {array.shape}")


def contiguous(array: Array) -> Array:
    """`array` as kernels read it: itself, or a copy."""
    return array if array.flags.c_contiguous else array.copy()


def c_name(kernel: str, dtype: np.dtype) -> str:
    if dtype not in C_NAMES:
        raise TypeError(f"{kernel}: dtype {dtype} is not supported; use one of {', '.join(map(str, C_NAMES))}")
    return C_NAMES[dtype]


def size(kernel: str, x: Array) -> tuple[int, int]:
    """Rows and columns of `x`."""
    if not x.ndim:
        raise ValueError(f"{kernel}: a matrix has at least one dimension, and this array has none; reshape it")
    cols = x.shape[-1]
    return x.size // max(cols, 1), cols
