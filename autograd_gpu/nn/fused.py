"""Fusion of a Linear and the following activation into one op, `linear_activation`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..ops.nn.linear_activation import activated
from . import functional as F
from .activation import GELU, ReLU, Sigmoid, SiLU, Tanh
from .exponential_activations import CELU, ELU, Softplus
from .hooks import EVERYWHERE
from .linear import Linear
from .module import Module
from .piecewise_activations import LeakyReLU

# By exact class, since a subclass may override forward: the activation's name, and its parameters in order.
ACTIVATIONS: dict[type[Module], tuple[str, Callable[[Any], tuple[Any, ...]]]] = {
    ReLU: ("relu", lambda module: ()),
    Tanh: ("tanh", lambda module: ()),
    Sigmoid: ("sigmoid", lambda module: ()),
    SiLU: ("silu", lambda module: ()),
    GELU: ("gelu", lambda module: (module.approximate,)),
    ELU: ("elu", lambda module: (module.alpha,)),
    CELU: ("celu", lambda module: (module.alpha,)),
    LeakyReLU: ("leaky_relu", lambda module: (module.negative_slope,)),
    Softplus: ("softplus", lambda module: (module.beta, module.threshold)),
}


# Functions in place of modules, as in TransformerEncoderLayer.
FUNCTIONS: dict[Any, tuple[str, tuple[Any, ...]]] = {
    F.relu: ("relu", ()), F.tanh: ("tanh", ()), F.sigmoid: ("sigmoid", ()), F.silu: ("silu", ()),
    F.gelu: ("gelu", ("none",)),
}  # fmt: skip


def _plain(module: Module) -> bool:
    """Whether a call of `module` runs only its class's forward: no hooks, no overridden attributes."""
    return not module._ag_hooks and "forward" not in module.__dict__


def _known(activation: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The name and parameters of a known activation, a module without hooks or a function; else None."""
    found = ACTIVATIONS.get(type(activation))
    if found is not None:
        return (found[0], found[1](activation)) if _plain(activation) else None
    return FUNCTIONS.get(activation) if isinstance(activation, FunctionType) else None


def through(layer: Module, activation: Any, input: Any) -> Any:
    """activation(layer(input)), as one op if the layer is a Linear with a bias and neither has hooks."""
    if type(layer) is Linear and not EVERYWHERE and _plain(layer):
        known = _known(activation)
        if known is not None:
            return activated(input, layer.weight, layer.bias, *known)
    return activation(layer(input))


def run(modules: list[Module], input: Any) -> Any:
    """Applies the modules in order, each Linear fused with the following activation if possible."""
    waiting = None  # a Linear that is not applied yet
    for module in modules:
        if type(module) is Linear:
            input, waiting = input if waiting is None else waiting(input), module
        elif waiting is None:
            input = module(input)
        else:
            input, waiting = through(waiting, module, input), None
    return input if waiting is None else waiting(input)
