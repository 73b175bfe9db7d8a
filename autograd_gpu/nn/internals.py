"""The dicts of PyTorch's Module that libraries read and write: `_parameters`, `_modules`, `_forward_hooks` and others.

Here they are views: mappings that hold nothing, and read and change what the module has registered (registry.py,
hooks.py, state_dict.py). They are dicts by isinstance, and `copy()` gives a dict. As in PyTorch, what is written into
them is not checked, so a clone of a module may hold plain tensors, with a history, in the place of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, MutableMapping, MutableSet, ValuesView
from typing import TYPE_CHECKING, Any

from ..core.graph.hooks import Hooks
from ..core.interpret.tracing import ModuleChanges
from .hooks import Hook
from .registry import BUFFER, TRANSIENT, Kinds, Registry, own_dict, read

if TYPE_CHECKING:
    Dict = MutableMapping[Any, Any]
    Set = MutableSet[str]
else:

    class Dict(MutableMapping, dict):
        """A dict by isinstance, with the methods of MutableMapping; what it has as a dict stays empty."""

    class Set(MutableSet, set):
        """A set by isinstance, with the methods of MutableSet."""


class View(Dict):
    """What is common to the views: the methods of dict that MutableMapping lacks."""

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list(self))

    def keys(self) -> KeysView[Any]:
        """The names, as a dict view, which supports `reversed`; so do `values` and `items`."""
        return self.copy().keys()

    def values(self) -> ValuesView[Any]:
        return self.copy().values()

    def items(self) -> ItemsView[Any, Any]:
        return self.copy().items()

    def copy(self) -> dict[Any, Any]:
        """A dict of the present entries."""
        return {name: self[name] for name in self}

    def __copy__(self) -> dict[Any, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(self.copy())


class Members(View):
    """The attributes of a module that are of some kinds, by name."""

    def __init__(self, owner: Registry, *kinds: str) -> None:
        self.owner, self.wanted = owner, kinds

    def __getitem__(self, name: str) -> Any:
        if self.owner._ag_kinds.get(name) not in self.wanted:
            raise KeyError(name)
        return read(self.owner, name)

    def __setitem__(self, name: str, value: Any) -> None:
        kind = self.owner._ag_kinds.get(name)
        self.owner._ag_set(name, value, kind if kind in self.wanted else self.wanted[0])

    def __delitem__(self, name: str) -> None:
        self[name]  # KeyError for other attributes
        Registry.__delattr__(self.owner, name)  # not that of a subclass, which may have come here

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, kind in self.owner._ag_kinds.items() if kind in self.wanted])

    def __len__(self) -> int:
        return sum(kind in self.wanted for kind in self.owner._ag_kinds.values())


class Transients(Set):
    """The names of a module's non-persistent buffers; to add the name of a buffer makes it non-persistent."""

    def __init__(self, owner: Registry) -> None:
        self.owner = owner

    @classmethod
    def _from_iterable(cls, names: Any) -> Any:
        return set(names)  # the result of & and |

    def __contains__(self, name: object) -> bool:
        return self.owner._ag_kinds.get(name) == TRANSIENT  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, kind in self.owner._ag_kinds.items() if kind == TRANSIENT])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def add(self, name: str) -> None:
        if self.owner._ag_kinds.get(name) not in (BUFFER, TRANSIENT):
            raise KeyError(f"{name!r} is no buffer: register it with persistent=False")
        self.owner._ag_kinds[name] = TRANSIENT

    def discard(self, name: str) -> None:
        if name in self:
            self.owner._ag_kinds[name] = BUFFER

    def __reduce_ex__(self, protocol: Any) -> Any:
        return set, (set(iter(self)),)

    def __repr__(self) -> str:
        return repr(set(iter(self)))


class Attributes(View):
    """The `__dict__` of a module as PyTorch's has it: registered attributes are in `_parameters` and its like."""

    shared = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")

    def __init__(self, owner: Registry) -> None:
        self.owner, self.plain = owner, own_dict(owner)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return read(self.owner, name) if name in self.shared else self.plain[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in (self.owner._ag_kinds or ()):
            raise KeyError(f"{name!r} is registered in this module: assign module.{name}, or delete it first")
        object.__setattr__(self.owner, name, value)
        ModuleChanges.count += 1

    def __delitem__(self, name: str) -> None:
        if name not in self or name in self.shared:
            raise KeyError(name)
        del self.plain[name]
        ModuleChanges.count += 1

    def __contains__(self, name: object) -> bool:
        kinds = self.owner._ag_kinds
        if kinds is None:
            return name in self.plain
        return name in self.shared or (name in self.plain and name not in kinds and name != "_ag_kinds")

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in (*self.shared, *self.plain) if name in self])

    def __len__(self) -> int:
        return len(list(iter(self)))


class HooksOf(View):
    """The hooks of one kind by the ids of their handles, out of the hooks of all kinds."""

    def __init__(self, hooks: Any, kind: str, wrap: Callable[[Any], Any], function_of: Callable[[Any], Any]) -> None:
        self.hooks, self.kind, self.wrap, self.function_of = hooks, kind, wrap, function_of

    def __getitem__(self, key: int) -> Any:
        if self.hooks[key][0] != self.kind:
            raise KeyError(key)
        return self.function_of(self.hooks[key])

    def __setitem__(self, key: int, hook: Any) -> None:
        self.hooks[key] = self.wrap(hook)

    def __delitem__(self, key: int) -> None:
        self[key]  # KeyError for a hook of another kind
        del self.hooks[key]

    def __iter__(self) -> Iterator[int]:
        return iter([key for key, hook in list(self.hooks.items()) if hook[0] == self.kind])

    def __len__(self) -> int:
        return len(list(iter(self)))


def members(*kinds: str) -> Any:
    """A property: the view of the attributes of these kinds; a mapping that is assigned takes their place."""

    def read(self: Registry) -> Members:
        return Members(self, *kinds)

    def replace(self: Registry, entries: Mapping[str, Any]) -> None:
        entries = dict(entries)
        if self._ag_kinds is None:  # of a module made by __new__
            self._ag_kinds = Kinds()
        for name in Members(self, *kinds):
            if name not in entries:
                object.__delattr__(self, name)
        self._ag_kinds = Kinds(item for item in self._ag_kinds.items() if item[1] not in kinds or item[0] in entries)
        Members(self, *kinds).update(entries)

    return property(read, replace)


def _hooks_of(attribute: str, kind: str, wrap: Callable[[Any], Any], function_of: Callable[[Any], Any]) -> Any:
    """A property: the view of the hooks of one kind in `attribute`; a mapping that is assigned takes their place."""

    def read(self: Any) -> HooksOf:
        if getattr(self, attribute) is None:
            setattr(self, attribute, Hooks())
        return HooksOf(getattr(self, attribute), kind, wrap, function_of)

    def replace(self: Any, hooks: Mapping[int, Any]) -> None:
        hooks, view = dict(hooks), read(self)
        view.clear()
        view.update(hooks)

    return property(read, replace)


def module_hooks(kind: str) -> Any:
    """A property: the hooks of one kind around a call."""
    return _hooks_of("_ag_hooks", kind, lambda function: Hook(kind, function), lambda hook: hook.function)


def state_hooks(kind: str) -> Any:
    """A property: the hooks of one kind around a state dict."""
    return _hooks_of("_ag_state_hooks", kind, lambda function: (kind, function), lambda hook: hook[1])
