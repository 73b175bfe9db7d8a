"""Module: a tree of parameters, buffers and child modules with a forward function.

Its base classes: registry.py (attributes), traversal.py, hooks.py, state_dict.py, convert.py (devices and dtypes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..autograd.zero_grad import zero_grad
from ..compilation import compile
from ..core.interpret.tracing import MODULE_CALLS, MODULE_CLASSES, ModuleChanges
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
from .internals import Attributes, Transients, members, module_hooks, state_hooks
from .registry import BUFFER, MODULE, PARAMETER, TRANSIENT, own_dict, read
from .state_dict import LOAD_POST, LOAD_PRE, SAVE_POST, SAVE_PRE, IncompatibleKeys, Stateful

__all__ = [
    "IncompatibleKeys",
    "Module",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

Self = TypeVar("Self", bound="Module")


def _with_view(self: Module, name: str) -> Any:
    """An attribute, with the view of Module as `__dict__`."""
    return Attributes(self) if name == "__dict__" else read(self, name)


class Module(Movable["Module"], Stateful["Module"], Hookable):
    """Base of all layers and networks: subclass it, make layers in `__init__`, compute in `forward`.

    Assigning a Parameter, Buffer or Module to an attribute registers it under that name. Calling the module runs
    `forward` and its hooks.

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

    # PyTorch's dicts, see internals.py.
    _parameters, _buffers, _modules = members(PARAMETER), members(BUFFER, TRANSIENT), members(MODULE)
    _forward_hooks, _forward_pre_hooks = module_hooks(hooks.POST), module_hooks(hooks.PRE)
    _backward_hooks, _backward_pre_hooks = module_hooks(hooks.BACKWARD), module_hooks(hooks.BACKWARD_PRE)
    _state_dict_hooks, _state_dict_pre_hooks = state_hooks(SAVE_POST), state_hooks(SAVE_PRE)
    _load_state_dict_pre_hooks, _load_state_dict_post_hooks = state_hooks(LOAD_PRE), state_hooks(LOAD_POST)

    @property
    def _non_persistent_buffers_set(self) -> Transients:
        """The names of the buffers that are not in `state_dict`."""
        return Transients(self)

    @_non_persistent_buffers_set.setter
    def _non_persistent_buffers_set(self, names: Iterable[str]) -> None:
        names = set(names)
        for name in self._buffers:
            self._ag_kinds[name] = TRANSIENT if name in names else BUFFER

    @property
    def __dict__(self) -> Any:
        """The attributes, as PyTorch's Module has them."""
        return Attributes(self)

    @__dict__.setter
    def __dict__(self, attributes: Mapping[str, Any]) -> None:
        attributes = dict(attributes)
        own_dict(self).clear()
        ModuleChanges.count += 1
        Attributes(self).update(attributes)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Lets a `__setattr__` of the class find `_modules` in `__dict__`, also where a class before Module hides it.

        A class between the two in the order of bases, such as abc.ABC, brings Python's own `__dict__`. Reads of
        attributes become slower, so it is done for classes only that set attributes themselves, as PyTorch's Module.
        """
        super().__init_subclass__(**kwargs)
        hidden = next(base for base in cls.__mro__ if "__dict__" in vars(base)) is not Module
        if hidden and cls.__setattr__ is not Module.__setattr__ and cls.__getattribute__ is read:
            cls.__getattribute__ = _with_view  # type: ignore[method-assign,assignment]

    def __init__(self) -> None:
        super().__init__()
        self._ag_hooks = hooks.Hooks()
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's output; subclasses must override it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._ag_hooks or EVERYWHERE:
            return hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # ---- modes ---------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Sets `training` in this module and its descendants, and returns the module; affects dropout and batch norm.

        ValueError if `mode` is not a bool.

        >>> net = ag.nn.Sequential(ag.nn.Dropout()).train()
        >>> net.training, net[0].training
        (True, True)
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)  # recursive: a child may override train
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode: train(False).

        >>> ag.nn.Dropout().eval().training
        False
        """
        return self.train(False)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles `forward` of this module in place, as `ag.compile` does; takes the same options.

        >>> layer = ag.nn.Linear(2, 1)
        >>> layer.compile()
        >>> outs = [layer(ag.ones(1, 2)) for _ in range(3)]
        >>> layer.forward.counts
        Counts(traced=2, compiled=1, eager=0)
        """
        self.forward = compile(self.forward, *args, **kwargs)  # type: ignore[method-assign]

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Sets requires_grad of all parameters, and returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or with `set_to_none=False` to zero in place.

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
        """The text between the parentheses of the module's repr."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._ag_members(MODULE)]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _traced(module: Module) -> tuple[str, dict[str, Any], tuple[Any, ...]]:
    """What a traced call has to know of a module that it calls."""
    return type(module).__name__, own_dict(module), (module._ag_hooks, EVERYWHERE)


MODULE_CLASSES[Module] = MODULE_CALLS[Module.__call__.__code__] = _traced
