"""Traversal of the module tree, and lookup by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..core.tensor import Parameter, Tensor
from .registry import BUFFER, MODULE, PARAMETER, TRANSIENT, Registry

M = TypeVar("M", bound="Tree[Any]")
Self = TypeVar("Self", bound="Tree[Any]")


class Tree(Registry, Generic[M]):
    """A module as the root of a tree of modules, which are of class M."""

    def named_children(self) -> Iterator[tuple[str, M]]:
        """The modules directly below this one, each once."""
        seen: set[M] = set()
        for name, module in self._ag_members(MODULE):
            if module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[M]:
        """The modules directly below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and its descendants with dotted names; the name of the root is `prefix`."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._ag_members(MODULE):
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[M]:
        """This module and all below it, each once, or with `remove_duplicate=False` at each of its places."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self, get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]], prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        """What `get_members_fn(module)` has for this module, or for all with `recurse`, by dotted name, without None.

        `get_members_fn` returns pairs (name, value).
        """
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        seen: set[Any] = set()
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or (remove_duplicate and value in seen):
                    continue
                seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters by dotted name after `prefix`, in the order of registration, a shared one once.

        `recurse=False` excludes those of child modules; `remove_duplicate=False` includes all names of shared ones.

        >>> net = ag.nn.Sequential(ag.nn.Linear(3, 2), ag.nn.ReLU())
        >>> [(name, p.shape) for name, p in net.named_parameters(prefix="net")]
        [('net.0.weight', (2, 3)), ('net.0.bias', (2,))]
        """
        return self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, a shared one once, as for an optimizer.

        >>> sum(p.numel() for p in ag.nn.Linear(3, 2).parameters())
        8
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers by dotted name, a shared one once."""
        return self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, a shared one once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Calls `fn` on all descendants, children first, then on this module; returns the module.

        >>> def start(module):
        ...     if isinstance(module, ag.nn.Linear):
        ...         ag.nn.init.ones_(module.weight)
        >>> ag.nn.Sequential(ag.nn.Linear(1, 1)).apply(start)[0].weight.tolist()
        [[1.0]]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- by name -------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> M:
        """The module of that dotted name; AttributeError, naming what is missing or is no module.

        >>> ag.nn.Sequential(ag.nn.Sequential(ag.nn.ReLU())).get_submodule("0.0")
        ReLU()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Tree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: M, strict: bool = False) -> None:
        """Puts `module` in the place of that dotted name; with `strict` there must be one already.

        >>> net = ag.nn.Sequential(ag.nn.ReLU())
        >>> net.set_submodule("0", ag.nn.Tanh())
        >>> net[0]
        Tanh()
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(getattr(parent, name, module), Tree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name `target`; AttributeError if it is missing or not a parameter.

        >>> ag.nn.Sequential(ag.nn.Linear(3, 2)).get_parameter("0.bias").shape
        (2,)
        """
        _, value = self._ag_find(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name `target`; AttributeError if it is missing or not a buffer.

        >>> ag.nn.Sequential(ag.nn.BatchNorm1d(2)).get_buffer("0.running_mean").shape
        (2,)
        """
        kind, value = self._ag_find(target)
        if kind not in (BUFFER, TRANSIENT):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not a buffer")
        return value

    def _ag_find(self, target: str) -> tuple[str | None, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return module._ag_kinds.get(name), getattr(module, name)


def _parameters_of(module: Tree[Any]) -> Iterator[tuple[str, Any]]:
    return module._ag_members(PARAMETER)


def _buffers_of(module: Tree[Any]) -> Iterator[tuple[str, Any]]:
    return module._ag_members(BUFFER, TRANSIENT)
