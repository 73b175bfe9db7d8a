"""The registry of kernel template instances and the types of their parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays.dtypes import bfloat16, float16, float32, float64, int64, uint64, wide
from ..formulas.cuda_code import Functor
from .tiles import VECTOR

C_NAMES = {float32: "float", float64: "double", float16: "__half", bfloat16: "__nv_bfloat16"}


class Parameter(NamedTuple):
    """A kernel parameter: "read" (const T*), "write" (T*), "scalar", or "struct" (by value, of a structured dtype).

    See kernels/README.md.
    """

    name: str
    kind: str
    dtype: np.dtype
    optional: bool = False


class Instance(NamedTuple):
    """An instance of a kernel template; the instances of a file with the same `unit` are compiled together.

    `functor` is one of a formula, whose code is not in the file.
    """

    file: str
    kernel: str
    parameters: tuple[Parameter, ...]
    unit: str
    functor: Functor | None


INSTANCES: dict[str, Instance] = {}  # by their C++ names (NVRTC's name expressions)
SIZE = (Parameter("rows", "scalar", int64), Parameter("cols", "scalar", int64))  # the last parameters of most kernels
COUNTERS = (Parameter("seed", "scalar", uint64), Parameter("start", "scalar", uint64),
            Parameter("live", "read", uint64, optional=True))  # of include/philox.cuh  # fmt: skip


def declare(
    name: str, file: str, kernel: str, parameters: tuple[Parameter, ...], unit: str = "", functor: Functor | None = None
) -> None:
    """Registers the instance `name` of the template `kernel` in kernels/`file`; ValueError if it is registered."""
    if name in INSTANCES:
        raise ValueError(f"the kernel instance {name} is declared twice, by {file} and {INSTANCES[name].file}")
    INSTANCES[name] = Instance(file, kernel, parameters, unit, functor)


def declare_sums(kernel: str) -> None:
    """Registers the instances of a kernel that sums a matrix, including float32 partial sums for half-type results."""
    for dtype, name in C_NAMES.items():
        x, partials = Parameter("x", "read", dtype), Parameter("partials", "write", wide(dtype), optional=True)
        for width in (VECTOR // dtype.itemsize, 1):
            for target in C_NAMES:
                if target == dtype or wide(target) == dtype:
                    parameters = (x, Parameter("out", "write", target), partials, *SIZE)
                    types = f"{name}, {C_NAMES[target]}, {width}"
                    declare(f"{kernel}<{types}>", f"{kernel}.cu", kernel, parameters, unit=f"{name}, {width}")


def instances_of(file: str, unit: str | None = None) -> tuple[str, ...]:
    """The C++ names of the instances of `file`, or of one unit of it."""
    return tuple([name for name, entry in [*INSTANCES.items()] if entry.file == file and unit in (None, entry.unit)])
