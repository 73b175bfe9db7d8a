"""A Linear and the activation behind it as one op, `linear_activation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.biased import activated
from .activation import GELU, ReLU, Sigmoid, SiLU, Tanh
from .exponential import CELU, ELU, Softplus
from .hooks import EVERYWHERE
from .linear import Linear
from .module import Module
from .piecewise import LeakyReLU

# By exact class: a subclass may do something else. The activation's name, and its parameters in order.
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


def _plain(module: Module) -> bool:
    """Whether a call of `module` is its class's forward and nothing else."""
    return not module._hooks and "forward" not in vars(module)


def run(modules: list[Module], input: Any) -> Any:
    """The modules one after the other; a Linear and its activation in one if nobody has a hook on either."""
    last, i = len(modules) - 1, 0
    while i <= last:
        module = modules[i]
        i += 1
        if type(module) is Linear and i <= last and not EVERYWHERE and module.bias is not None:
            found = ACTIVATIONS.get(type(modules[i]))
            if found is not None and _plain(module) and _plain(modules[i]):
                input = activated(input, module.weight, module.bias, found[0], found[1](modules[i]))
                i += 1
                continue
        input = module(input)
    return input
