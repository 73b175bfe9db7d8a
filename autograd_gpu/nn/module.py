"""Module: a tree of parameters, buffers and child modules, and the forward pass over them.

Its parts, one file each: registry.py (attributes), traversal.py, hooks.py, state_dict.py, convert.py
(devices and dtypes).
"""

from __future__ import annotations

from typing import Any, TypeVar

from ..autograd.zero_grad import zero_grad
from . import hooks
from .convert import Movable
from .hooks import (
    EVERYWHERE,
    Hookable,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from .registry import MODULE
from .state_dict import IncompatibleKeys, Stateful

__all__ = [
    "IncompatibleKeys",
    "Module",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

Self = TypeVar("Self", bound="Module")


class Module(Movable["Module"], Stateful["Module"], Hookable):
    """Base of all layers and networks: subclass it, make layers in `__init__`, compute in `forward`.

    A Parameter, Buffer or Module that is assigned to an attribute is registered under that name. Calling the module
    runs `forward`, between the hooks if there are any.

    >>> class Net(ag.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = ag.nn.Linear(3, 2)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    >>> net = Net()
    >>> net(ag.ones(5, 3)).shape
    (5, 2)
    >>> [name for name, _ in net.named_parameters()]
    ['layer.weight', 'layer.bias']
    """

    training: bool

    def __init__(self) -> None:
        super().__init__()
        self._ag_hooks = hooks.Hooks()
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._ag_hooks or EVERYWHERE:
            return hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # ---- modes ---------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Sets `training` here and below, and returns the module: dropout drops only then.

        ValueError if `mode` is no bool.

        >>> net = ag.nn.Sequential(ag.nn.Dropout()).train()
        >>> net.training, net[0].training
        (True, True)
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)  # not all at once: a child may have a train of its own
        return self

    def eval(self: Self) -> Self:
        """The same as train(False).

        >>> ag.nn.Dropout().eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Freezes (False) or unfreezes all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or with `set_to_none=False` sets them to zero in place.

        >>> layer = ag.nn.Linear(2, 1)
        >>> layer(ag.ones(1, 2)).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        zero_grad(self.parameters(), set_to_none)

    # ---- printing ------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._ag_members(MODULE)]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
