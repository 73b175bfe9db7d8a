"""Containers of modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any, TypeVar, overload

from .fused import run
from .module import Module
from .registry import MODULE, read

Self = TypeVar("Self", bound="_Ordered")


class _Ordered(Module):
    """Base of Sequential and ModuleList: children with the names "0", "1", ... unless named otherwise."""

    def __len__(self) -> int:
        return self._ag_kinds.children

    def __iter__(self) -> Iterator[Module]:
        return iter([read(self, name) for name in self._ag_names()])

    def _ag_names(self) -> list[str]:
        return [name for name, kind in self._ag_kinds.items() if kind == MODULE]

    def _ag_position(self, index: int) -> int:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return index % size

    def _ag_name_at(self, index: int) -> str:
        kinds = self._ag_kinds
        names = kinds if kinds.children == len(kinds) else self._ag_names()
        return next(islice(names, self._ag_position(index), None))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return self._ag_of([(name, read(self, name)) for name in self._ag_names()[index]])
        return read(self, self._ag_name_at(index))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._ag_name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = self._ag_names()
        doomed = names[index] if isinstance(index, slice) else [self._ag_name_at(index)]
        children = [(name, read(self, name)) for name in names]
        kept = [(name, module) for name, module in children if name not in doomed]
        numbered = all(name.isdigit() for name in names)
        self._ag_replace([(str(i) if numbered else name, module) for i, (name, module) in enumerate(kept)])

    def _ag_replace(self, children: Iterable[tuple[str, Module]]) -> None:
        for name in self._ag_names():
            delattr(self, name)
        for name, module in children:
            self.add_module(name, module)

    def _ag_of(self: Self, children: list[tuple[str, Module]]) -> Self:
        """A container of the same class with these children."""
        raise NotImplementedError

    def append(self: Self, module: Module) -> Self:
        """Appends `module`, named by its index, and returns the container; TypeError if it is not a Module.

        >>> len(ag.nn.Sequential(ag.nn.Linear(2, 3)).append(ag.nn.ReLU()))
        2
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Appends all of `modules` and returns the container; TypeError for an element that is not a Module.

        >>> len(ag.nn.ModuleList([ag.nn.Linear(2, 3)]).extend([ag.nn.ReLU(), ag.nn.Linear(3, 1)]))
        3
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got "
                            f"{type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: Self, index: int, module: Module) -> Self:
        """Inserts `module` before `index`, renumbers all modules, and returns the container.

        TypeError if it is not a Module, IndexError unless -len <= index <= len.

        >>> ag.nn.ModuleList([ag.nn.ReLU()]).insert(0, ag.nn.Tanh())[0]
        Tanh()
        """
        if not isinstance(module, Module):
            raise TypeError(f"insert: expected a Module, got {type(module).__name__}")
        children = list(self)
        if not -len(children) <= index <= len(children):
            raise IndexError(f"Index out of range: {index}")
        children.insert(index, module)
        self._ag_replace((str(i), child) for i, child in enumerate(children))
        return self

    def pop(self, key: int | slice) -> Module:
        """Removes and returns the module at `key`.

        >>> ag.nn.Sequential(ag.nn.ReLU(), ag.nn.Tanh()).pop(-1)
        Tanh()
        """
        module = self[key]
        del self[key]
        return module

    def __iadd__(self: Self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class Sequential(_Ordered):
    """Applies its modules in order, each to the output of the previous one.

    Takes modules, or one dict of modules by name. Indexing returns a module, slicing a Sequential of the same modules;
    `+` concatenates two, `*` repeats the same modules. A Linear followed by an activation runs as one op,
    `functional.linear_activation`, unless one of them has a hook.

    >>> net = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Tanh(), ag.nn.Linear(8, 2))
    >>> net(ag.ones(5, 4)).shape
    (5, 2)
    >>> len(net[:2])
    2
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        only = args[0] if len(args) == 1 else None
        named: Mapping[str, Any] = only if isinstance(only, Mapping) else {str(i): m for i, m in enumerate(args)}
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        return run(list(self), input)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * _positive(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend(list(self) * (_positive(times) - 1))

    def _ag_of(self, children: list[tuple[str, Module]]) -> Sequential:
        return type(self)(dict(children))


def _positive(times: int) -> int:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")
    return times


class ModuleList(_Ordered):
    """A list whose modules are registered: their parameters are the owner's.

    >>> layers = ag.nn.ModuleList([ag.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend([] if modules is None else modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def _ag_name_at(self, index: int) -> str:
        name = str(self._ag_position(index))  # not by counting, which takes as long as the list
        return name if self._ag_kinds.get(name) == MODULE else super()._ag_name_at(index)

    def _ag_of(self, children: list[tuple[str, Module]]) -> ModuleList:
        return type(self)(module for _, module in children)

    def __repr__(self) -> str:
        """Groups consecutive modules with equal text in one line: (0-2): 3 x Linear(...)."""
        runs: list[tuple[int, int, str]] = []  # first index, last index, text
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {inner}\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dict whose modules are registered under their keys, in the order of insertion.

    Takes a dict, a ModuleDict, or pairs (key, module).

    >>> layers = ag.nn.ModuleDict({"act": ag.nn.ReLU(), "out": ag.nn.Linear(2, 1)})
    >>> list(layers), "act" in layers, layers["act"]
    (['act', 'out'], True, ReLU())
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def _ag_children(self) -> dict[str, Module]:
        return {name: read(self, name) for name, kind in self._ag_kinds.items() if kind == MODULE}

    def __getitem__(self, key: str) -> Module:
        if key not in self:
            raise KeyError(key)
        return read(self, key)

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        delattr(self, key)

    def __len__(self) -> int:
        return self._ag_kinds.children

    def __iter__(self) -> Iterator[str]:
        return iter(self._ag_children())

    def __contains__(self, key: str) -> bool:
        return self._ag_kinds.get(key) == MODULE

    def clear(self) -> None:
        """Removes all modules."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Module:
        """Removes and returns the module at `key`; KeyError if there is none."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._ag_children().keys()

    def items(self) -> ItemsView[str, Module]:
        """Pairs of key and module."""
        return self._ag_children().items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._ag_children().values()

    def update(self, modules: Any) -> None:
        """Adds or replaces modules: those of a dict, a ModuleDict, or pairs (key, module)."""
        for key, module in pairs_of(modules, "ModuleDict"):
            self[key] = module


def pairs_of(values: Any, owner: str) -> list[tuple[str, Any]]:
    if hasattr(values, "items"):
        return list(values.items())
    if not isinstance(values, Iterable):
        raise TypeError(f"{owner}.update should be called with an iterable of key/value pairs, but got "
                        f"{type(values).__name__}")
    pairs = []
    for i, pair in enumerate(values):
        if not isinstance(pair, (tuple, list)):
            raise TypeError(f"{owner} update sequence element #{i} should be Iterable; is {type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{owner} update sequence element #{i} has length {len(pair)}; 2 is required")
        pairs.append((pair[0], pair[1]))
    return pairs
