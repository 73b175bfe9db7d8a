"""A function of every element, and the product of a gradient with its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.kernels.pointwise import choose

Array = np.ndarray
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _logistic(z):
    return 1 / (1 + np.exp(-z))


def _mish_gate(z):
    return np.tanh(np.logaddexp(z, 0))


def _nan_to_num(z, nan, positive, negative):
    return np.where(np.isnan(z), nan, np.where(z == math.inf, positive, np.where(z == -math.inf, negative, z)))


def _within(z, limit):
    return (z >= -limit) & (z <= limit)


VALUES: dict[str, Callable[..., Array]] = {
    "Selu": lambda z, *_: SELU_SCALE * np.where(z > 0, z, SELU_ALPHA * np.expm1(np.minimum(z, 0))),
    "LogSigmoid": lambda z, *_: -np.logaddexp(0, -z),
    "Mish": lambda z, *_: z * _mish_gate(z),
    "Softsign": lambda z, *_: z / (1 + abs(z)),
    "HardTanh": lambda z, low, high, _: np.clip(z, low, high),
    "HardSigmoid": lambda z, *_: np.clip(z + 3, 0, 6) / 6,
    "HardSwish": lambda z, *_: z * (np.clip(z + 3, 0, 6) / 6),
    "HardShrink": lambda z, limit, *_: np.where(abs(z) <= limit, 0, z),
    "SoftShrink": lambda z, limit, *_: z - np.clip(z, -limit, limit),
    "Threshold": lambda z, threshold, value, _: np.where(z <= threshold, value, z),
    "NanToNum": _nan_to_num,
    "Sinc": lambda z, *_: np.sinc(z),
    "Frac": lambda z, *_: z - np.trunc(z),
    "Rsqrt": lambda z, *_: 1 / np.sqrt(z),
}
PULLS: dict[str, Callable[..., Array]] = {
    "Selu": lambda g, z, *_: g * SELU_SCALE * np.where(z > 0, 1, SELU_ALPHA * np.exp(np.minimum(z, 0))),
    "LogSigmoid": lambda g, z, *_: g * _logistic(-z),
    "Mish": lambda g, z, *_: g * np.where(
        z > 20, _mish_gate(z), _mish_gate(z) + z * _logistic(z) * (1 - _mish_gate(z) ** 2)),
    "Softsign": lambda g, z, *_: g / (1 + abs(z)) ** 2,
    "HardTanh": lambda g, z, low, high, _: np.where((z <= low) | (z >= high), 0, g),
    "HardSigmoid": lambda g, z, *_: np.where(abs(z) < 3, g / 6, 0),
    "HardSwish": lambda g, z, *_: np.where(z >= 3, g, np.where(z <= -3, 0, g * (z / 3 + 0.5))),
    "HardShrink": lambda g, z, limit, *_: np.where(_within(z, limit), 0, g),
    "SoftShrink": lambda g, z, limit, *_: np.where(_within(z, limit), 0, g),
    "Threshold": lambda g, z, threshold, *_: np.where(z <= threshold, 0, g),
    "NanToNum": lambda g, z, *_: np.where(np.isfinite(z), g, 0),
}


def pointwise(name: str, x: Array, **attributes: Any) -> Array:
    """f(x) for the function `name` with its attributes."""
    functor, numbers = choose(name, **attributes)
    return VALUES[functor](x.astype(wide(x.dtype)), *numbers).astype(x.dtype)


def pointwise_backward(name: str, g: Array, x: Array, **attributes: Any) -> Array:
    """g * f'(x) for the function `name` with its attributes."""
    functor, numbers = choose(name, **attributes)
    return PULLS[functor](g.astype(wide(g.dtype)), x.astype(wide(x.dtype)), *numbers).astype(x.dtype)
