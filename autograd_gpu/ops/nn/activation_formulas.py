"""The activations that may stand right behind a bias: each one's value, first and second derivative, through an F."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .activation import silu_curve
from .exponential_activations import elu_back, elu_curve, softplus_back, softplus_curve
from .gelu import gelu_curve

Function = Callable[..., Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Curve(NamedTuple):
    """value(F, z), slope(F, h, s) and bend(F, s), each with the activation's parameters behind.

    `s` is what derivatives read: the result of an activation that is `by_result`, else z. slope is h * act'; bend is
    the derivative of act' by s, None where that is zero. `defaults` are the parameters' names and values.
    """

    value: Function
    slope: Function
    bend: Function | None
    by_result: bool = False
    defaults: Mapping[str, Any] = NOTHING


CURVES: dict[str, Curve] = {
    "relu": Curve(lambda F, z: F.relu(z), lambda F, h, out: F.relu_grad(h, out), None, by_result=True),
    "tanh": Curve(
        lambda F, z: F.tanh(z), lambda F, h, out: F.tanh_grad(h, out), lambda F, out: out * -2, by_result=True
    ),
    "sigmoid": Curve(
        lambda F, z: F.sigmoid(z), lambda F, h, out: F.sigmoid_grad(h, out), lambda F, out: 1 - out * 2, by_result=True
    ),
    "leaky_relu": Curve(
        lambda F, z, slope: F.leaky_relu(z, slope),
        lambda F, h, z, slope: F.chosen(z, z > 0, h, h * slope),
        None,
        defaults={"negative_slope": 0.01},
    ),
    "elu": Curve(
        lambda F, z, alpha: F.elu(z, alpha),
        lambda F, h, z, alpha: elu_back(F, h, z, 1, alpha, 1),
        lambda F, z, alpha: elu_curve(F, z, alpha, 1),
        defaults={"alpha": 1.0},
    ),
    "celu": Curve(
        lambda F, z, alpha: F.celu(z, alpha),
        lambda F, h, z, alpha: elu_back(F, h, z, 1, alpha, 1 / alpha),
        lambda F, z, alpha: elu_curve(F, z, alpha, 1 / alpha),
        defaults={"alpha": 1.0},
    ),
    "gelu": Curve(
        lambda F, z, approximate: F.gelu(z, approximate),
        lambda F, h, z, approximate: F.gelu_grad(h, z, approximate),
        gelu_curve,
        defaults={"approximate": "none"},
    ),
    "silu": Curve(lambda F, z: F.silu(z), lambda F, h, z: F.silu_grad(h, z), silu_curve),
    "softplus": Curve(
        lambda F, z, beta, threshold: F.softplus(z, beta, threshold),
        softplus_back,
        softplus_curve,
        defaults={"beta": 1.0, "threshold": 20.0},
    ),
    "sine": Curve(
        lambda F, z, frequency: F.sin(z * frequency),
        lambda F, h, z, frequency: h * F.cos(z * frequency) * frequency,
        lambda F, z, frequency: F.sin(z * frequency) * (-frequency * frequency),
        defaults={"frequency": 1.0},
    ),
}


def parameters_of(activation: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """All parameters of an activation in their order; ValueError for its name, TypeError for one that it has not."""
    if activation not in CURVES:
        raise ValueError(f"there is no activation {activation!r} for a linear layer; use one of {', '.join(CURVES)}, "
                         "or call it on the result of linear")
    defaults = CURVES[activation].defaults
    for name in given:
        if name not in defaults:
            raise TypeError(f"{activation} has no parameter {name!r}; it has {', '.join(defaults) or 'none'}")
    return (*{**defaults, **given}.values(),)
