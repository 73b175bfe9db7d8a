"""Kernel launches: checks the arguments and converts them to the types of the kernel's parameters."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import counters
from ..cuda import runtime
from . import loader
from .instances import C_NAMES, Parameter
from .tiles import VECTOR, Launch

Array = Any  # cupy.ndarray


def launch(name: str, shape: Launch, *arguments: Any, label: str | None = None) -> None:
    """Launches the instance `name` on the current stream; does nothing for an empty grid.

    `label`, by default the template's name, is its name in error messages and in the profiler. TypeError or ValueError
    for an argument that does not match its parameter.
    """
    grid, block = shape
    if 0 in grid:
        return
    device = runtime.current.device()
    kernel, call, parameters = loader.load(name, device)
    typed: list[Any] = []
    for (parameter, dtype, scalars), value in zip(parameters, arguments, strict=True):
        if scalars is not None:
            try:
                typed.append(scalars.of(value))
            except TypeError:  # a 0-d array, which is not hashable
                typed.append(scalars.make(value))
            continue
        if value is None:
            if not parameter.optional:
                raise TypeError(f"{label or kernel}: {parameter.name} is missing")
        elif value.dtype != dtype or not value._c_contiguous or value.data.device_id != device:
            raise _refusal(label or kernel, parameter, value, device)
        typed.append(value)  # None is a null pointer
    call(grid, block, typed)
    if counters.ACTIVE:
        counters.launch(label or kernel)


def _refusal(kernel: str, parameter: Parameter, value: Array, device: int) -> Exception:
    name, dtype = parameter.name, parameter.dtype
    if value.dtype != dtype:
        return TypeError(f"{kernel}: {name} must be {dtype}, not {value.dtype}; convert it with astype")
    if value.data.device_id != device:
        there = value.data.device_id
        return RuntimeError(f"{kernel}: {name} is on cuda:{there}, but the current device is cuda:{device}; "
                            f"call inside `with cupy.cuda.Device({there}):`")
    return ValueError(f"{kernel}: {name} must be contiguous; copy it with cupy.ascontiguousarray")


def check_array(kernel: str, name: str, array: Array, shape: tuple[int, ...] | None = None) -> None:
    if not isinstance(array, runtime.cupy().ndarray):
        raise TypeError(f"{kernel}: {name} must be a CuPy array, not {type(array).__name__}; move it with cupy.asarray")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{kernel}: {name} must have shape {shape}, not {array.shape}")


def contiguous(array: Array | None) -> Array | None:
    """`array` if it is C-contiguous, else a contiguous copy. Arrays of other devices stay; `launch` refuses them."""
    if array is None or runtime.c_contiguous(array) or array.data.device_id != runtime.device_index():
        return array
    return array.copy()


def alike(*arrays: Array) -> list[Array]:
    """Arrays as kernels take them: broadcast, contiguous, and promoted, which a plain backward does not do."""
    listed, first = [*arrays], arrays[0]
    if any(a.shape != first.shape for a in listed):
        listed = runtime.cupy().broadcast_arrays(*listed)
    if any(a.dtype != first.dtype for a in listed):
        wide = functools.reduce(np.promote_types, [a.dtype for a in listed])
        listed = [a.astype(wide, copy=False) for a in listed]
    return [contiguous(a) for a in listed]


def aligned(*arrays: Array | None) -> bool:
    """Whether all arrays begin at a multiple of 16 bytes, as vector loads require."""
    bits = 0
    for array in arrays:
        if array is not None:
            bits |= array.data.ptr
    return bits % VECTOR == 0


def c_name(kernel: str, dtype: np.dtype) -> str:
    if dtype not in C_NAMES:
        raise TypeError(f"{kernel}: dtype {dtype} is not supported; use one of {', '.join(map(str, C_NAMES))}")
    return C_NAMES[dtype]


def size(kernel: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of an array of this shape; ValueError for ()."""
    if not shape:
        raise ValueError(f"{kernel}: a matrix has at least one dimension, and this array has none; reshape it")
    return math.prod(shape) // max(shape[-1], 1), shape[-1]
