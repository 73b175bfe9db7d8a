"""Fusion of a Linear and the following activation into one op, `linear_activation`."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..core.interpret.tracing import tracer
from ..modes import MODES
from ..ops.nn.linear_activation import ACTIVATIONS as FAMILIES
from ..ops.nn.linear_activation import activated
from . import functional as F
from .activation import GELU, ReLU, Sigmoid, SiLU, Tanh
from .exponential_activations import CELU, ELU, Softplus
from .hooks import EVERYWHERE
from .linear import Linear
from .module import Module
from .piecewise_activations import LeakyReLU
from .registry import own_dict

# By exact class, since a subclass may override forward. The parameters are attributes of the module.
ACTIVATIONS: dict[type[Module], str] = {
    ReLU: "relu", Tanh: "tanh", Sigmoid: "sigmoid", SiLU: "silu", GELU: "gelu", ELU: "elu", CELU: "celu",
    LeakyReLU: "leaky_relu", Softplus: "softplus",
}  # fmt: skip

# Functions in place of modules, as in TransformerEncoderLayer; with the default parameters.
FUNCTIONS: dict[Any, str] = {
    F.relu: "relu", F.tanh: "tanh", F.sigmoid: "sigmoid", F.silu: "silu", F.gelu: "gelu",
}  # fmt: skip


def _plain(module: Module) -> bool:
    """Whether a call of `module` runs only its class's forward: no hooks, no overridden attributes."""
    return not module._ag_hooks and "forward" not in own_dict(module)


def _known(activation: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The name and the parameters of a module without hooks, or of a function."""
    name = ACTIVATIONS.get(type(activation))
    if name is not None:
        parameters = FAMILIES[name].attributes
        if not _plain(activation):
            return None
        return name, tuple([getattr(activation, p) for p in parameters]) if parameters else ()
    name = FUNCTIONS.get(activation) if isinstance(activation, FunctionType) else None
    return None if name is None else (name, tuple(FAMILIES[name].attributes.values()))


def through(layer: Module, activation: Any, input: Any) -> Any:
    """activation(layer(input)), as one op if the layer is a Linear with a bias and neither has hooks."""
    if type(layer) is Linear and not EVERYWHERE and _plain(layer):
        known = _known(activation)
        if known is not None:
            if MODES.stack and (level := tracer()):  # neither is called
                level.relies_on(layer, activation)
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
