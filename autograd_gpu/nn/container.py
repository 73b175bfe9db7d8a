"""Modules that hold other modules in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, overload

from .module import MODULE, Module

Self = TypeVar("Self", bound="_Ordered")


class _Ordered(Module):
    """What Sequential and ModuleList share: children under the names "0", "1", ... unless named otherwise."""

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Module]:
        return iter([getattr(self, name) for name in self._names()])

    def _names(self) -> list[str]:
        return [name for name, kind in self._kinds.items() if kind == MODULE]

    def _name_at(self, index: int) -> str:
        names = self._names()
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range")
        return names[index]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return self._of([(name, getattr(self, name)) for name in self._names()[index]])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = self._names()
        doomed = names[index] if isinstance(index, slice) else [self._name_at(index)]
        children = [(name, getattr(self, name)) for name in names]
        for name in names:
            delattr(self, name)
        kept = [(name, module) for name, module in children if name not in doomed]
        numbered = all(name.isdigit() for name in names)
        for i, (name, module) in enumerate(kept):
            self.add_module(str(i) if numbered else name, module)

    def _of(self: Self, children: list[tuple[str, Module]]) -> Self:
        """A container of the same class over some of the children."""
        raise NotImplementedError

    def _append(self, module: Module) -> None:
        self.add_module(str(len(self)), module)


class Sequential(_Ordered):
    """Feeds its input through its modules, each one's output into the next.

    Takes modules, or one dict of modules by name. Indexing gives a module, slicing a Sequential of the same
    modules.

    >>> net = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Tanh(), ag.nn.Linear(8, 2))
    >>> net(ag.ones(5, 4)).shape
    (5, 2)
    >>> len(net[:2])
    2
    """

    def __init__(self, *args: Module | dict[str, Module]) -> None:
        super().__init__()
        only = args[0] if len(args) == 1 else None
        named: dict[str, Any] = only if isinstance(only, dict) else {str(i): m for i, m in enumerate(args)}
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def append(self, module: Module) -> Sequential:
        """Adds `module` at the end, under its number as name, and returns the container; TypeError if it is no Module.

        >>> len(ag.nn.Sequential(ag.nn.Linear(2, 3)).append(ag.nn.ReLU()))
        2
        """
        self._append(module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Adds all of `modules` at the end, in order, and returns the container; TypeError for what is no Module.

        >>> len(ag.nn.Sequential(ag.nn.Linear(2, 3)).extend([ag.nn.ReLU(), ag.nn.Linear(3, 1)]))
        3
        """
        for module in list(modules):
            self._append(module)
        return self

    def _of(self, children: list[tuple[str, Module]]) -> Sequential:
        return type(self)(dict(children))


class ModuleList(_Ordered):
    """A list whose modules are registered: their parameters are the owner's.

    >>> layers = ag.nn.ModuleList([ag.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend([] if modules is None else modules)

    def append(self, module: Module) -> ModuleList:
        """Adds `module` at the end, under its number as name, and returns the list; TypeError if it is no Module.

        >>> len(ag.nn.ModuleList([ag.nn.Linear(2, 3)]).append(ag.nn.ReLU()))
        2
        """
        self._append(module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds all of `modules` at the end, in order, and returns the list; TypeError for what is no Module.

        >>> len(ag.nn.ModuleList([ag.nn.Linear(2, 3)]).extend([ag.nn.ReLU(), ag.nn.Linear(3, 1)]))
        3
        """
        for module in list(modules):
            self._append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Inserts `module` before `index`."""
        children = list(self)
        children.insert(index, module)
        del self[:]
        self.extend(children)

    def _of(self, children: list[tuple[str, Module]]) -> ModuleList:
        return type(self)(module for _, module in children)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a ModuleList is not called: iterate over it in the owner's forward")
