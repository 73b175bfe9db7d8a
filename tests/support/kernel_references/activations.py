"""The activations of bias_activation.cu, written by hand: nothing here is made of the ops' formulas.

Every activation has two parameters, `a` and `b`, which it may ignore. `s` is the value saved by the forward: the result
if `from_result`, else x + bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

Array = np.ndarray


class Activation(NamedTuple):
    """An activation in NumPy: value(z, a, b), gradient pull(g, s, a, b), second(s, a, b) and third(s, a, b).

    second is the derivative of the derivative by s, third that of the second derivative by s.
    """

    value: Callable[..., Array]
    pull: Callable[..., Array]
    second: Callable[..., Array] | None = None  # None if the second derivative is 0
    from_result: bool = False
    third: Callable[..., Array] | None = None

    def second_derivative(self, s: Array, a: float, b: float) -> Array:
        """The second derivative with respect to z."""
        bent = self.second(s, a, b)
        return self.pull(bent, s, a, b) if self.from_result else bent


def _logistic(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def _elu_value(z, alpha, inner):
    return np.where(z > 0, z, alpha * np.expm1(z * inner))


def _elu_pull(g, z, alpha, inner):
    return np.where(z > 0, g, g * np.exp(z * inner) * (alpha * inner))


def _elu_second(z, alpha, inner):
    return np.where(z >= 0, 0, np.exp(z * inner) * (alpha * inner * inner))


def _elu_third(z, alpha, inner):
    return _elu_second(z, alpha * inner, inner)


def _below(z):
    """The cumulative distribution function of the standard normal distribution."""
    return 0.5 * (1 + special.erf(z * math.sqrt(0.5)))


def _density(z):
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


SCALE, CUBIC = math.sqrt(2 / math.pi), 0.044715  # of gelu's tanh approximation


def _inner(z):
    """The argument of the tanh in gelu's tanh approximation, and its derivative."""
    return z * (z * z * CUBIC + 1) * SCALE, (z * z * (3 * CUBIC) + 1) * SCALE


def _gelu_tanh_pull(g, z, a, b):
    inner, slope = _inner(z)
    t = np.tanh(inner)
    return g * (0.5 * (1 + t) + 0.5 * z * (1 - t * t) * slope)


def _gelu_tanh_second(z, a, b):
    inner, slope = _inner(z)
    t = np.tanh(inner)
    return (1 - t * t) * (slope + z * 0.5 * (z * (6 * CUBIC * SCALE) - 2 * t * slope * slope))


def _gelu_tanh_third(z, a, b):
    inner, slope = _inner(z)
    t, curve = np.tanh(inner), z * (6 * CUBIC * SCALE)
    third = (6 * t * t - 2) * slope**3 - 6 * t * slope * curve + 6 * CUBIC * SCALE
    return (1 - t * t) * 0.5 * (3 * (curve - 2 * t * slope * slope) + z * third)


def _silu_pull(g, z, a, b):
    s = _logistic(z)
    return g * (s * (1 + z * (1 - s)))


def _silu_second(z, a, b):
    s = _logistic(z)
    return s * (1 - s) * (z * (1 - 2 * s) + 2)


def _silu_third(z, a, b):
    s = _logistic(z)
    return s * (1 - s) * (3 * (1 - 2 * s) + z * ((1 - 2 * s) ** 2 - 2 * s * (1 - s)))


def _softplus_value(z, beta, threshold):
    return np.where(z * beta > threshold, z, np.log1p(np.exp(z * beta)) / beta)


def _softplus_pull(g, z, beta, threshold):
    return np.where(z * beta > threshold, g, g * _logistic(z * beta))


def _softplus_second(z, beta, threshold):
    return np.where(z * beta > threshold, 0, beta * _logistic(z * beta) * _logistic(z * -beta))


def _softplus_third(z, beta, threshold):
    s, rest = _logistic(z * beta), _logistic(z * -beta)
    return np.where(z * beta > threshold, 0, beta * beta * s * rest * (rest - s))


ACTIVATIONS = {
    "Relu": Activation(
        lambda z, a, b: np.where(z <= 0, 0, z), lambda g, out, a, b: np.where(out <= 0, 0, g), from_result=True
    ),
    "LeakyRelu": Activation(
        lambda z, slope, b: np.where(z > 0, z, z * slope), lambda g, z, slope, b: np.where(z > 0, g, g * slope)
    ),
    "Elu": Activation(_elu_value, _elu_pull, _elu_second, third=_elu_third),
    "Gelu": Activation(
        lambda z, a, b: z * _below(z),
        lambda g, z, a, b: g * (_below(z) + z * _density(z)),
        lambda z, a, b: _density(z) * (2 - z * z),
        third=lambda z, a, b: _density(z) * z * (z * z - 4),
    ),
    "GeluTanh": Activation(
        lambda z, a, b: 0.5 * z * (1 + np.tanh(_inner(z)[0])), _gelu_tanh_pull, _gelu_tanh_second,
        third=_gelu_tanh_third,
    ),
    "Silu": Activation(lambda z, a, b: z * _logistic(z), _silu_pull, _silu_second, third=_silu_third),
    "Tanh": Activation(
        lambda z, a, b: np.tanh(z),
        lambda g, out, a, b: g * (1 - out * out),
        lambda out, a, b: -2 * out,
        True,
        lambda out, a, b: 6 * out * out - 2,
    ),
    "Sigmoid": Activation(
        lambda z, a, b: _logistic(z),
        lambda g, out, a, b: g * (out * (1 - out)),
        lambda out, a, b: 1 - 2 * out,
        True,
        lambda out, a, b: 1 - 6 * out * (1 - out),
    ),
    "Softplus": Activation(_softplus_value, _softplus_pull, _softplus_second, third=_softplus_third),
    "Sine": Activation(
        lambda z, w, b: np.sin(z * w),
        lambda g, z, w, b: g * np.cos(z * w) * w,
        lambda z, w, b: np.sin(z * w) * (-w * w),
        third=lambda z, w, b: np.cos(z * w) * (-w * w * w),
    ),
}

# By the names of the ops, with the ops' attributes as parameters: the entry of ACTIVATIONS, a and b.
NAMES: dict[str, Callable[..., tuple[str, float, float]]] = {
    "relu": lambda: ("Relu", 0, 0),
    "leaky_relu": lambda negative_slope=0.01: ("LeakyRelu", negative_slope, 0),
    "elu": lambda alpha=1.0: ("Elu", alpha, 1),
    "celu": lambda alpha=1.0: ("Elu", alpha, 1 / alpha),
    "gelu": lambda approximate="none": ("Gelu" if approximate == "none" else "GeluTanh", 0, 0),
    "silu": lambda: ("Silu", 0, 0),
    "tanh": lambda: ("Tanh", 0, 0),
    "sigmoid": lambda: ("Sigmoid", 0, 0),
    "softplus": lambda beta=1.0, threshold=20.0: ("Softplus", beta, threshold),
    "sine": lambda frequency=1.0: ("Sine", frequency, 0),
}


class Choice(NamedTuple):
    """An activation with its parameters."""

    act: Activation
    a: float
    b: float


def choose(name: str, **attributes: Any) -> Choice:
    entry, a, b = NAMES[name](**attributes)
    return Choice(ACTIVATIONS[entry], a, b)
