"""A function of every element, and the product of a gradient with its derivative.

`name` and `attributes` are those of the op, as in FUNCTIONS.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import ArgumentError
from ..arrays.dtypes import wide
from ..cuda import runtime
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, aligned, c_name, check_array, launch
from .tiles import VECTOR, Launch, tiles

FILE = "pointwise.cu"
Chosen = tuple[Any, ...]  # a functor of kernels/include/functions.cuh and its parameters


def _hardtanh(min_val: float = -1.0, max_val: float = 1.0) -> Chosen:
    if min_val > max_val:
        raise ArgumentError("min_val cannot be greater than max_val")
    return "HardTanh", min_val, max_val


def _softshrink(lambd: float = 0.5) -> Chosen:
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return "SoftShrink", lambd


FUNCTIONS: dict[str, Callable[..., Chosen]] = {
    "selu": lambda: ("Selu",),
    "logsigmoid": lambda: ("LogSigmoid",),
    "mish": lambda: ("Mish",),
    "softsign": lambda: ("Softsign",),
    "hardtanh": _hardtanh,
    "hardsigmoid": lambda: ("HardSigmoid",),
    "hardswish": lambda: ("HardSwish",),
    "hardshrink": lambda lambd=0.5: ("HardShrink", lambd),
    "softshrink": _softshrink,
    "threshold": lambda threshold, value=0.0: ("Threshold", threshold, value),
    "nan_to_num": lambda nan=0.0, posinf=math.inf, neginf=-math.inf: ("NanToNum", nan, posinf, neginf),
    "sinc": lambda: ("Sinc",),
    "frac": lambda: ("Frac",),
    "rsqrt": lambda: ("Rsqrt",),
}
FUNCTORS = (
    "Selu", "LogSigmoid", "Mish", "Softsign", "HardTanh", "HardSigmoid", "HardSwish", "HardShrink", "SoftShrink",
    "Threshold", "NanToNum", "Sinc", "Frac", "Rsqrt",
)  # fmt: skip
WITHOUT_PULL = ("Sinc", "Frac", "Rsqrt")  # functors whose derivative is no kernel


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        x, g = Parameter("x", "read", dtype), Parameter("g", "read", dtype)
        out, dx = Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        numbers = tuple(Parameter(letter, "scalar", wide(dtype)) for letter in "abc")
        kernels = {"pointwise": (x, out, *numbers, *SIZE), "pointwise_backward": (g, x, dx, *numbers, *SIZE)}
        for functor in FUNCTORS:
            for width in (VECTOR // dtype.itemsize, 1):
                unit = f"{functor}, {name}, {width}"
                for kernel, parameters in kernels.items():
                    if kernel == "pointwise" or functor not in WITHOUT_PULL:
                        declare(f"{kernel}<{unit}>", FILE, kernel, parameters, unit=unit)


_declare()


class Plan(NamedTuple):
    """The arguments of `launch` without the arrays."""

    instance: str
    shape: Launch
    label: str
    numbers: tuple[Any, ...]


def choose(name: str, **attributes: Any) -> tuple[str, tuple[float, float, float]]:
    """The functor of a function and its three parameters; ValueError for an unknown name."""
    if name not in FUNCTIONS:
        raise ValueError(f"there is no kernel for the function {name!r}; there is one for {', '.join(FUNCTIONS)}")
    functor, *numbers = FUNCTIONS[name](**attributes)
    a, b, c = (*numbers, 0.0, 0.0, 0.0)[:3]
    return functor, (a, b, c)


@functools.lru_cache(4096)
def _plan(kernel: str, name: str, dtype: np.dtype, size: int, aligned: bool, **attributes: Any) -> Plan:
    label = name + kernel.removeprefix("pointwise")
    c_type, (functor, numbers) = c_name(label, dtype), choose(name, **attributes)
    width = VECTOR // dtype.itemsize
    width = width if aligned and size % width == 0 else 1
    return Plan(f"{kernel}<{functor}, {c_type}, {width}>", tiles(1, size, width, dtype.itemsize), label, numbers)


def pointwise(name: str, x: Array, out: Array | None = None, **attributes: Any) -> Array:
    """f(x) for the function `name` with its attributes; `out` may be `x`. Half types are computed in float32."""
    check_array(name, "x", x)
    out = runtime.cupy().empty(x.shape, x.dtype) if out is None else out
    check_array(name, "out", out, x.shape)
    plan = _plan("pointwise", name, x.dtype, x.size, aligned(x, out), **attributes)
    launch(plan.instance, plan.shape, x, out, *plan.numbers, 1, x.size, label=plan.label)
    return out


def pointwise_backward(name: str, g: Array, x: Array, dx: Array | None = None, **attributes: Any) -> Array:
    """g * f'(x) for the function `name` with its attributes; `dx` may be `g`."""
    check_array(f"{name}_backward", "x", x)
    check_array(f"{name}_backward", "g", g, x.shape)
    dx = runtime.cupy().empty(x.shape, x.dtype) if dx is None else dx
    check_array(f"{name}_backward", "dx", dx, x.shape)
    plan = _plan("pointwise_backward", name, x.dtype, x.size, aligned(g, x, dx), **attributes)
    launch(plan.instance, plan.shape, g, x, dx, *plan.numbers, 1, x.size, label=plan.label)
    return dx
