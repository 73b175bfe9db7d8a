"""Every instance of every kernel template, and the types of its parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..dtypes import HALF, bfloat16, float16, float32, float64, int64

C_NAMES = {float32: "float", float64: "double", float16: "__half", bfloat16: "__nv_bfloat16"}


class Parameter(NamedTuple):
    """One parameter of a kernel: "read" (const T*), "write" (T*) or "scalar", as kernels/README.md has it."""

    name: str
    kind: str
    dtype: np.dtype
    optional: bool = False


class Instance(NamedTuple):
    """One instance of a kernel template."""

    file: str
    kernel: str
    parameters: tuple[Parameter, ...]


INSTANCES: dict[str, Instance] = {}  # by their C++ names, which is what compilers call name expressions
SIZE = (Parameter("rows", "scalar", int64), Parameter("cols", "scalar", int64))  # the last parameters of most kernels


def declare(name: str, file: str, kernel: str, parameters: tuple[Parameter, ...]) -> None:
    """Adds the instance `name` of a template in kernels/`file`; the profiler counts its launches as `kernel`."""
    if name in INSTANCES:
        raise ValueError(f"the kernel instance {name} is declared twice, by {file} and {INSTANCES[name].file}")
    INSTANCES[name] = Instance(file, kernel, parameters)


def instances_of(file: str) -> tuple[str, ...]:
    """The instances of `file` by their C++ names."""
    return tuple([name for name, instance in INSTANCES.items() if instance.file == file])


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype that sums of `dtype` are made in."""
    return float32 if dtype in HALF else dtype
