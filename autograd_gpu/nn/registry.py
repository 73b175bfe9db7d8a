"""The attributes of a module: which of them are parameters, buffers and child modules.

Note [Attributes of a module]
A parameter, buffer or child is an ordinary attribute in the instance's dict, so reading it runs no Python code.
`_ag_kinds` lists the registered attributes in order with their kinds; it holds no values, so the two cannot disagree.
Where PyTorch's programs see the difference, Module looks as PyTorch's:

* `__dict__` of a module is a view (internals.py) that has `_parameters`, `_buffers` and `_modules` in the place of the
  registered attributes.
* `Module.__getattr__` exists, for subclasses that call `super().__getattr__(name)`. A subclass with a `__getattr__` of
  its own is asked for registered attributes, for which `__getattribute__` is replaced.

The library itself reads attributes by `read`, which asks neither, and does not create the dict of an instance, which
makes later reads slower (19 ns instead of 8). Whatever sets or deletes an attribute counts that in `ModuleChanges`,
afterwards: a compiled call looks at the modules that it uses only if the number is another one. Private names begin
with `_ag_`, to avoid clashes with users' subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.interpret.tracing import ModuleChanges
from ..core.tensor import Parameter, Tensor
from .parameter import Buffer

PARAMETER, BUFFER, TRANSIENT, MODULE = "parameter", "buffer", "non-persistent buffer", "child module"
_PLURAL = {PARAMETER: "parameters", BUFFER: "buffers", TRANSIENT: "buffers", MODULE: "module"}  # PyTorch's words

read = object.__getattribute__


class Kinds(dict[str, str]):
    """The kinds of registered attributes by name; `children` counts the child modules among them."""

    def __init__(self, kinds: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(kinds)
        self.children = list(self.values()).count(MODULE)

    def __setitem__(self, name: str, kind: str) -> None:
        self.children += (kind == MODULE) - (self.get(name) == MODULE)
        super().__setitem__(name, kind)
        ModuleChanges.count += 1

    def __delitem__(self, name: str) -> None:
        self.children -= self[name] == MODULE
        super().__delitem__(name)
        ModuleChanges.count += 1

    def __reduce__(self) -> Any:
        return Kinds, (dict(self),)


class Registry:
    """The part of Module that registers attributes."""

    # Attribute name -> PARAMETER, BUFFER, TRANSIENT or MODULE. The class attribute is None before __init__, so that a
    # subclass's __getattr__ is not called, which may read an attribute that does not exist yet.
    _ag_kinds: Kinds = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._ag_kinds = Kinds()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__getattr__ is not Registry.__getattr__ and cls.__getattribute__ is read:
            cls.__getattribute__ = _without_registered  # type: ignore[method-assign,assignment]

    def __setstate__(self, state: Any) -> None:
        """Sets the attributes of a copied or unpickled module; a shallow copy gets its own registry."""
        plain, slots = state if isinstance(state, tuple) else (state, None)
        for name, value in {**(plain or {}), **(slots or {})}.items():
            object.__setattr__(self, name, type(value)(value) if name in ("_ag_kinds", "_ag_hooks") else value)
        ModuleChanges.count += 1

    def __getattr__(self, name: str) -> Any:
        """Returns a registered attribute; AttributeError for a name that does not exist."""
        return read(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = self._ag_kinds
        kind = None if kinds is None else kinds.get(name)
        if isinstance(value, (Parameter, Registry, Buffer)):
            new_kind = _kind_of(value)
            if kinds is None:
                raise AttributeError(f"cannot assign {_PLURAL[new_kind]} before Module.__init__() call")
            if kind == PARAMETER and new_kind == MODULE:
                raise _wrong_kind(name, kind, value)
            if isinstance(value, Buffer):
                value.__class__ = Tensor  # type: ignore[assignment]  # Buffer adds nothing but the wish
            self._ag_register(name, value, new_kind)
            return
        if kind is not None and value is not None and not (kind in (BUFFER, TRANSIENT) and isinstance(value, Tensor)):
            raise _wrong_kind(name, kind, value)
        object.__setattr__(self, name, value)
        ModuleChanges.count += 1

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        ModuleChanges.count += 1
        if name in (self._ag_kinds or ()):
            del self._ag_kinds[name]

    def __dir__(self) -> list[str]:
        return sorted(name for name in {*super().__dir__(), *own_dict(self)} if not name[0].isdigit())

    def _ag_register(self, name: str, value: Any, kind: str) -> None:
        if hasattr(getattr(type(self), name, None), "__set__"):
            object.__setattr__(self, name, value)  # the property of the class handles it
            return
        _check_name(name, kind)
        self._ag_set(name, value, kind)

    def _ag_set(self, name: str, value: Any, kind: str) -> None:
        """Registers `value` as it is, without any check."""
        if self._ag_kinds.get(name, kind) != kind:
            del self._ag_kinds[name]  # so that it moves to the end
        self._ag_kinds[name] = kind
        object.__setattr__(self, name, value)
        ModuleChanges.count += 1

    def _ag_register_new(self, name: str, value: Any, kind: str, allowed: type, needed: str) -> None:
        if self._ag_kinds is None:
            raise AttributeError(f"cannot assign {kind.removeprefix('non-persistent ')} before Module.__init__() call")
        _check_name(name, kind)
        if hasattr(self, name) and self._ag_kinds.get(name) != kind:
            raise KeyError(f"attribute '{name}' already exists")
        if value is not None and not isinstance(value, allowed):
            if kind == MODULE:
                raise TypeError(f"{typename(value)} is not a Module subclass")
            raise TypeError(f"cannot assign '{typename(value)}' object to {kind} '{name}' ({needed} or None required)")
        self._ag_register(name, value, kind)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Registers a parameter; None registers the name without a parameter."""
        self._ag_register_new(name, param, PARAMETER, Parameter, "Parameter")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that is not a parameter and moves with the module; a persistent one is in `state_dict`.

        >>> module = ag.nn.Module()
        >>> module.register_buffer("mean", ag.zeros(2))
        >>> list(module.state_dict())
        ['mean']
        """
        kind = BUFFER if persistent else TRANSIENT
        if self._ag_kinds is not None and self._ag_kinds.get(name) in (BUFFER, TRANSIENT):
            self._ag_kinds[name] = kind
        self._ag_register_new(name, tensor, kind, Tensor, "Tensor")

    def register_module(self, name: str, module: Any) -> None:
        """Registers a child module.

        >>> net = ag.nn.Module()
        >>> net.register_module("act", ag.nn.ReLU())
        >>> net.act
        ReLU()
        """
        self._ag_register_new(name, module, MODULE, Registry, "Module")

    add_module = register_module

    def _ag_members(self, *kinds: str) -> Iterator[tuple[str, Any]]:
        for name, kind in self._ag_kinds.items():
            if kind in kinds and (value := read(self, name)) is not None:
                yield name, value


own_dict: Callable[[Registry], dict[str, Any]] = Registry.__dict__["__dict__"].__get__  # not the view of Module


def _without_registered(self: Registry, name: str) -> Any:
    """Hides registered attributes, so that Python asks the `__getattr__` of the class for them."""
    if name in (read(self, "_ag_kinds") or ()):
        raise AttributeError(name)
    return read(self, name)


def _kind_of(value: Parameter | Registry | Buffer) -> str:
    if isinstance(value, Buffer):
        return BUFFER if value.persistent else TRANSIENT
    return PARAMETER if isinstance(value, Parameter) else MODULE


def _check_name(name: str, kind: str) -> None:
    what = "module" if kind == MODULE else kind.removeprefix("non-persistent ")
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain ".", got: {name}')
    if not name:
        raise KeyError(f'{what} name can\'t be empty string ""')


def _wrong_kind(name: str, kind: str, value: Any) -> TypeError:
    allowed = {PARAMETER: "Parameter", MODULE: "Module"}.get(kind, "Tensor")
    return TypeError(f"cannot assign '{typename(value)}' as {kind} '{name}' ({allowed} or None expected)")


def typename(value: Any) -> str:
    """The qualified type name of `value`, for error messages."""
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
