"""The activations of kernels/include/activations.cuh: their functors, and the functors of the ops' activations.

Every activation has two scalar parameters, `a` and `b`, which it may ignore.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

FUNCTORS = ("Relu", "LeakyRelu", "Elu", "Gelu", "GeluTanh", "Silu", "Tanh", "Sigmoid", "Softplus", "Sine")
STRAIGHT = ("Relu", "LeakyRelu")  # functors whose second derivative is zero


class Choice(NamedTuple):
    """An activation with its parameters, and its label in the profiler."""

    label: str
    functor: str
    a: float
    b: float


def _gelu(approximate: str = "none") -> tuple[str, float, float]:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return "Gelu" if approximate == "none" else "GeluTanh", 0, 0


def _celu(alpha: float = 1.0) -> tuple[str, float, float]:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return "Elu", alpha, 1 / alpha


# By the names of the ops, with the ops' attributes as parameters.
NAMES: dict[str, Callable[..., tuple[str, float, float]]] = {
    "relu": lambda: ("Relu", 0, 0),
    "leaky_relu": lambda negative_slope=0.01: ("LeakyRelu", negative_slope, 0),
    "elu": lambda alpha=1.0: ("Elu", alpha, 1),
    "celu": _celu,
    "gelu": _gelu,
    "silu": lambda: ("Silu", 0, 0),
    "tanh": lambda: ("Tanh", 0, 0),
    "sigmoid": lambda: ("Sigmoid", 0, 0),
    "softplus": lambda beta=1.0, threshold=20.0: ("Softplus", beta, threshold),
    "sine": lambda frequency=1.0: ("Sine", frequency, 0),
}


@functools.lru_cache(1024)
def choose(name: str, **attributes: Any) -> Choice:
    """The activation `name` with its attributes; ValueError for an unknown name, TypeError for an unknown attribute."""
    if name not in NAMES:
        raise ValueError(f"there is no kernel for the activation {name!r}; there is one for {', '.join(NAMES)}")
    return Choice(f"bias_{name}", *NAMES[name](**attributes))
