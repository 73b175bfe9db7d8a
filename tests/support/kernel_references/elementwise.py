"""Functions of one element, and the products of a gradient with their derivatives, written by hand.

By the names of the ops and their attributes; nothing here is made of the ops' formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide

from .activations import NAMES, choose

Array = np.ndarray
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _logistic(z):
    return 1 / (1 + np.exp(-z))


def _mish_gate(z):
    return np.tanh(np.logaddexp(z, 0))


def _nan_to_num(z, nan, posinf, neginf):
    return np.where(np.isnan(z), nan, np.where(z == math.inf, posinf, np.where(z == -math.inf, neginf, z)))


def _within(z, limit):
    return (z >= -limit) & (z <= limit)


VALUES: dict[str, Callable[..., Array]] = {
    "selu": lambda z: SELU_SCALE * np.where(z > 0, z, SELU_ALPHA * np.expm1(np.minimum(z, 0))),
    "logsigmoid": lambda z: -np.logaddexp(0, -z),
    "mish": lambda z: z * _mish_gate(z),
    "softsign": lambda z: z / (1 + abs(z)),
    "hardtanh": lambda z, min_val, max_val: np.clip(z, min_val, max_val),
    "hardsigmoid": lambda z: np.clip(z + 3, 0, 6) / 6,
    "hardswish": lambda z: z * (np.clip(z + 3, 0, 6) / 6),
    "hardshrink": lambda z, lambd: np.where(abs(z) <= lambd, 0, z),
    "softshrink": lambda z, lambd: z - np.clip(z, -lambd, lambd),
    "threshold": lambda z, threshold, value: np.where(z <= threshold, value, z),
    "nan_to_num": _nan_to_num,
    "sinc": lambda z: np.sinc(z),
    "frac": lambda z: z - np.trunc(z),
    "rsqrt": lambda z: 1 / np.sqrt(z),
}
PULLS: dict[str, Callable[..., Array]] = {
    "selu": lambda g, z: g * SELU_SCALE * np.where(z > 0, 1, SELU_ALPHA * np.exp(np.minimum(z, 0))),
    "logsigmoid": lambda g, z: g * _logistic(-z),
    "mish": lambda g, z: g * np.where(
        z > 20, _mish_gate(z), _mish_gate(z) + z * _logistic(z) * (1 - _mish_gate(z) ** 2)),
    "softsign": lambda g, z: g / (1 + abs(z)) ** 2,
    "hardtanh": lambda g, z, min_val, max_val: np.where((z <= min_val) | (z >= max_val), 0, g),
    "hardsigmoid": lambda g, z: np.where(abs(z) < 3, g / 6, 0),
    "hardswish": lambda g, z: np.where(z >= 3, g, np.where(z <= -3, 0, g * (z / 3 + 0.5))),
    "hardshrink": lambda g, z, lambd: np.where(_within(z, lambd), 0, g),
    "softshrink": lambda g, z, lambd: np.where(_within(z, lambd), 0, g),
    "threshold": lambda g, z, threshold, value: np.where(z <= threshold, 0, g),
    "nan_to_num": lambda g, z, **_: np.where(np.isfinite(z), g, 0),
}


def elementwise(name: str, x: Array, **attributes: Any) -> Array:
    """f(x) for the function `name` with its attributes."""
    z = x.astype(wide(x.dtype))
    if name in NAMES:
        act, a, b = choose(name, **attributes)
        return act.value(z, a, b).astype(x.dtype)
    return VALUES[name](z, **attributes).astype(x.dtype)


def elementwise_gradient(name: str, g: Array, saved: Array, **attributes: Any) -> Array:
    """g * f' for the function `name` with its attributes; `saved` is x, or the result for relu, tanh and sigmoid."""
    g, s = g.astype(wide(g.dtype)), saved.astype(wide(saved.dtype))
    if name in NAMES:
        act, a, b = choose(name, **attributes)
        return act.pull(g, s, a, b).astype(saved.dtype)
    return PULLS[name](g, s, **attributes).astype(saved.dtype)


def group(*arrays: Array) -> list[Array]:
    """The results of `formula_functors.group`; the arrays are broadcast."""
    g, h, y, a, s = [x.astype(wide(x.dtype)) for x in arrays]
    results = g * (1 - y * y), g * h * y * -2 + a, a / (1 + np.exp(-a)) * s - np.maximum(h, 0.5)
    return [result.astype(arrays[0].dtype) for result in results]
