"""One record per activation that can be fused with a linear layer: its formulas, parameters and kernel.

A formula works through an F, on arrays and on tensors. The ops of the activations use the same formulas. The kernels
have the activations by the same names, with the same parameters as keyword arguments (backend/kernels/activations.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ...backend.formulas.expression import INPUT, on_host, ordered
from .activation import silu

Formula = Callable[..., Any]
NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})


class ActivationFormula(NamedTuple):
    """value(F, z), grad(F, h, s) = h * act', second_derivative(F, s) and third_derivative(F, s).

    Each is followed by the activation's parameters; `defaults` are their names and values. `s` is what the derivatives
    are computed from: the result if `by_result`, else z. second_derivative is the derivative of act' by s, and
    third_derivative that of act'' by s; both are None for a piecewise linear activation.
    """

    value: Formula
    grad: Formula
    second_derivative: Formula | None
    third_derivative: Formula | None
    by_result: bool = False
    defaults: Mapping[str, Any] = NO_PARAMETERS

    def named(self, parameters: tuple[Any, ...]) -> dict[str, Any]:
        """The parameters as keyword arguments of the kernels."""
        return dict(zip(self.defaults, parameters, strict=True))


# ---- derivatives of formulas ---------------------------------------------------------------------------

_IN_OPS = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "add": operator.add,
    "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg, "pow": operator.pow,
}  # fmt: skip
_OP_NAMES = {"select": "where", "and": "logical_and", "or": "logical_or"}  # where the primitive's name is another


def derived(op: Any, order: int) -> Formula:
    """The derivative of a pointwise op as a formula of F: one op per primitive, each with a derivative of its own."""
    formula = op.family.formula

    def derivative(F: Any, x: Any, *parameters: Any) -> Any:
        options = dict(zip(op.family.attributes, parameters, strict=True))
        values: dict[Any, Any] = {}
        for e in ordered([formula.derived((order,), tuple([(name, options[name]) for name in formula.options]))]):
            if e.op == INPUT:
                values[e] = x
            elif e.uniform:
                values[e] = on_host(e, options)
            else:
                function: Any = _IN_OPS.get(e.op) or getattr(F, _OP_NAMES.get(e.op, e.op))
                values[e] = function(*[values[a] for a in e.args])
        return values[e]

    return derivative


# ---- gelu ----------------------------------------------------------------------------------------------

GELU_SCALE, GELU_CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def gelu_is_exact(approximate: str) -> bool:
    """Whether gelu is computed without the tanh approximation; PyTorch's error for an unknown name."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "none"


def gelu_logit(x: Any) -> tuple[Any, Any]:
    """u and du / dx, where the tanh approximation of gelu is x * sigmoid(u)."""
    square = x * x
    return x * (square * GELU_CUBIC + 1) * (2 * GELU_SCALE), (square * (3 * GELU_CUBIC) + 1) * (2 * GELU_SCALE)


def gelu_second_derivative(F: Any, x: Any, approximate: str) -> Any:
    """(2 - x²) times the normal density, or the second derivative of the tanh approximation."""
    if gelu_is_exact(approximate):
        return F.exp(x * x * -0.5) * (2 - x * x) * (1 / math.sqrt(2 * math.pi))
    u, du = gelu_logit(x)
    s, rest = F.sigmoid(u), F.sigmoid(-u)
    ddu = x * (12 * GELU_CUBIC * GELU_SCALE)
    return s * rest * (du * 2 + x * (ddu + (rest - s) * du * du))


def gelu_third_derivative(F: Any, x: Any, approximate: str) -> Any:
    """x (x² - 4) times the normal density, or the third derivative of the tanh approximation."""
    if gelu_is_exact(approximate):
        return F.exp(x * x * -0.5) * x * (x * x - 4) * (1 / math.sqrt(2 * math.pi))
    u, du = gelu_logit(x)
    s, rest = F.sigmoid(u), F.sigmoid(-u)
    apart, product, dddu = rest - s, s * rest, 12 * GELU_CUBIC * GELU_SCALE
    ddu, square = x * dddu, du * du
    inner = (apart * apart - product * 2) * square * du + apart * du * ddu * 3 + dddu
    return product * ((apart * square + ddu) * 3 + x * inner)


# ---- elu and celu ----------------------------------------------------------------------------------------


def scaled_elu_grad(F: Any, g: Any, x: Any, scale: float, negative: float, inner: float) -> Any:
    """g times the derivative of: scale * x where x > 0, else negative * (exp(inner * x) - 1)."""
    e = F.exp(F.clamp(x, None, 0.0) * inner)
    return F.where(x > 0, g if scale == 1 else g * scale, g * e * (negative * inner))


def elu_second_derivative(F: Any, x: Any, alpha: float, inner: float) -> Any:
    """The second derivative of alpha * (exp(inner * x) - 1) where x < 0, else 0."""
    return F.where(x >= 0, 0.0, F.exp(F.clamp(x, None, 0.0) * inner) * (alpha * inner * inner))


def elu_third_derivative(F: Any, x: Any, alpha: float, inner: float) -> Any:
    """The third derivative of alpha * (exp(inner * x) - 1) where x < 0, else 0."""
    return elu_second_derivative(F, x, alpha * inner, inner)


# ---- softplus --------------------------------------------------------------------------------------------


def softplus_second_derivative(F: Any, x: Any, beta: float, threshold: float) -> Any:
    """0 where beta x > threshold, else beta s r for s = sigmoid(beta x) and r = 1 - s = sigmoid(-beta x)."""
    s, rest = F.sigmoid(x * beta), F.sigmoid(x * -beta)
    return F.where(x * beta > threshold, 0.0, s * rest * beta)


def softplus_third_derivative(F: Any, x: Any, beta: float, threshold: float) -> Any:
    """0 where beta x > threshold, else beta² s r (r - s) for s and r as above."""
    s, rest = F.sigmoid(x * beta), F.sigmoid(x * -beta)
    return F.where(x * beta > threshold, 0.0, s * rest * (rest - s) * (beta * beta))


# ---- the records -----------------------------------------------------------------------------------------

FORMULAS: dict[str, ActivationFormula] = {
    "relu": ActivationFormula(
        lambda F, z: F.relu(z), lambda F, h, out: F.relu_grad(h, out), None, None, by_result=True
    ),
    "tanh": ActivationFormula(
        lambda F, z: F.tanh(z),
        lambda F, h, out: F.tanh_grad(h, out),
        lambda F, out: out * -2,
        lambda F, out: out * out * 6 - 2,
        by_result=True,
    ),
    "sigmoid": ActivationFormula(
        lambda F, z: F.sigmoid(z),
        lambda F, h, out: F.sigmoid_grad(h, out),
        lambda F, out: 1 - out * 2,
        lambda F, out: 1 - out * (1 - out) * 6,
        by_result=True,
    ),
    "leaky_relu": ActivationFormula(
        lambda F, z, slope: F.leaky_relu(z, slope),
        lambda F, h, z, slope: F.leaky_relu_grad(h, z, slope),
        None,
        None,
        defaults={"negative_slope": 0.01},
    ),
    "elu": ActivationFormula(
        lambda F, z, alpha: F.elu(z, alpha),
        lambda F, h, z, alpha: F.elu_grad(h, z, alpha),
        lambda F, z, alpha: elu_second_derivative(F, z, alpha, 1),
        lambda F, z, alpha: elu_third_derivative(F, z, alpha, 1),
        defaults={"alpha": 1.0},
    ),
    "celu": ActivationFormula(
        lambda F, z, alpha: F.celu(z, alpha),
        lambda F, h, z, alpha: F.celu_grad(h, z, alpha),
        lambda F, z, alpha: elu_second_derivative(F, z, alpha, 1 / alpha),
        lambda F, z, alpha: elu_third_derivative(F, z, alpha, 1 / alpha),
        defaults={"alpha": 1.0},
    ),
    "gelu": ActivationFormula(
        lambda F, z, approximate: F.gelu(z, approximate),
        lambda F, h, z, approximate: F.gelu_grad(h, z, approximate),
        gelu_second_derivative,
        gelu_third_derivative,
        defaults={"approximate": "none"},
    ),
    "silu": ActivationFormula(
        lambda F, z: F.silu(z), lambda F, h, z: F.silu_grad(h, z), derived(silu, 2), derived(silu, 3)
    ),
    "softplus": ActivationFormula(
        lambda F, z, beta, threshold: F.softplus(z, beta, threshold),
        lambda F, h, z, beta, threshold: F.softplus_grad(h, z, beta, threshold),
        softplus_second_derivative,
        softplus_third_derivative,
        defaults={"beta": 1.0, "threshold": 20.0},
    ),
    "sine": ActivationFormula(
        lambda F, z, frequency: F.sin(z * frequency),
        lambda F, h, z, frequency: h * F.cos(z * frequency) * frequency,
        lambda F, z, frequency: F.sin(z * frequency) * (-frequency * frequency),
        lambda F, z, frequency: F.cos(z * frequency) * (-frequency * frequency * frequency),
        defaults={"frequency": 1.0},
    ),
}


def all_parameters(activation: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """All parameters of an activation in order; ValueError for an unknown activation, TypeError for an unknown name."""
    if activation not in FORMULAS:
        raise ValueError(f"there is no activation {activation!r} for linear_activation; use one of "
                         f"{', '.join(FORMULAS)}, or apply the activation to the result of linear")
    defaults = FORMULAS[activation].defaults
    for name in arguments:
        if name not in defaults:
            raise TypeError(f"{activation} has no parameter {name!r}; it has {', '.join(defaults) or 'none'}")
    return (*{**defaults, **arguments}.values(),)
