"""What a program depends on besides its arguments: values by key, cell or attribute, and what they were."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from ..core.graph.tensor_base import TensorBase
from ..core.tensor import Parameter, Tensor

PLAIN = (bool, int, float, str, bytes, type(None), complex)
CONTAINERS = (list, dict, set, deque, tuple)
MISSING = object()
LONGEST = 1000  # elements of a container that are taken down


class Item:
    """The value of a key of a dict, and what it was."""

    __slots__ = ("container", "elements", "expected", "key", "name", "snapshot")

    def __init__(self, container: Any, key: Any, name: str) -> None:
        self.container, self.key, self.name = container, key, name
        self.expected = self.now()
        self.snapshot = snapshot(self.expected)
        # Of a container without others in it the elements, of which identity is tested first, without Python code.
        nested = self.snapshot is None or any(type(pair) is not tuple or pair[1] is not None for pair in self.snapshot)
        self.elements = None if nested else [element for element, _ in self.snapshot]

    @property
    def _parts(self) -> int:
        return 2 if isinstance(self.expected, dict) else 1

    def now(self) -> Any:
        """The value that the key has now."""
        return self.container.get(self.key, MISSING)

    def holds(self) -> bool:
        """Whether the value is what it was."""
        now = self.now()
        if now is not self.expected and not equal(now, self.expected):
            return False
        if self.elements is not None and now is self.expected and len(now) == len(self.elements) // self._parts:
            found = chain.from_iterable(now.items()) if self._parts == 2 else now
            if all(map(is_, found, self.elements)):
                return True
        return self.snapshot is None or alike(self.snapshot, snapshot(now))


class CellItem(Item):
    """The content of a closure's cell."""

    __slots__ = ()

    def now(self) -> Any:
        try:
            return self.container.cell_contents
        except ValueError:
            return MISSING


class SlotItem(Item):
    """An attribute in a slot."""

    __slots__ = ()

    def now(self) -> Any:
        try:
            return self.key.__get__(self.container)
        except AttributeError:
            return MISSING


class AttributeItem(Item):
    """An attribute of a module of nn. What sets one counts it in ModuleChanges, but not what changes a list in it."""

    __slots__ = ()

    @property
    def is_counted(self) -> bool:
        """Whether it can only change together with ModuleChanges. Names with _ag_ are the library's own."""
        return self.snapshot is None or self.key.startswith("_ag_")


class NoHooks(Item):
    """That a dict of hooks is empty."""

    __slots__ = ()

    def now(self) -> Any:
        return bool(self.container)


class ParametersItem(Item):
    """That the groups of an optimizer have the parameters that they had; `key` has them."""

    __slots__ = ()

    def __init__(self, optimizer: Any) -> None:
        listed = [list(group["params"]) for group in optimizer.param_groups]
        super().__init__(optimizer, listed, f"the list of parameters of {type(optimizer).__name__}")

    def now(self) -> Any:
        groups = self.container.param_groups
        if len(groups) != len(self.key):
            return False
        for group, expected in zip(groups, self.key, strict=True):
            params = group["params"]
            if len(params) != len(expected) or not all(map(is_, params, expected)):
                return False
        return True

    def holds(self) -> bool:
        return bool(self.now())


def equal(a: Any, b: Any) -> bool:
    """Whether two plain values are the same for a program: 0.0 is not -0.0, NaN is NaN, 1 is not True."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return a.hex() == b.hex()
    if type(a) is tuple:
        return len(a) == len(b) and all(x is y or equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, types.MethodType):
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    return isinstance(a, (*PLAIN, np.dtype, np.generic, slice)) and bool(a == b)


def snapshot(x: Any, depth: int = 3) -> Any:
    """The elements of a container, with those of the containers among them; None for anything else."""
    if not isinstance(x, CONTAINERS) or not depth:
        return None
    if isinstance(x, tuple) and not any(isinstance(part, CONTAINERS) for part in x):
        return None  # compared as it is
    if len(x) > LONGEST:
        return [len(x)]
    elements = [part for item in x.items() for part in item] if isinstance(x, dict) else list(x)
    return [(element, snapshot(element, depth - 1)) for element in elements]


def alike(a: Any, b: Any) -> bool:
    """Whether two snapshots are the same."""
    if type(a) is tuple:
        return (a[0] is b[0] or equal(a[0], b[0])) and (a[1] is b[1] or alike(a[1], b[1]))
    if type(a) is not list or type(b) is not list:
        return equal(a, b)
    return len(a) == len(b) and all(map(alike, a, b))


def tensors_in(x: Any, depth: int = 3) -> Iterator[TensorBase]:
    """x, if it is a tensor, or those in a list, tuple or dict."""
    if isinstance(x, TensorBase):
        if type(x) in (Tensor, Parameter):  # the array of others is made when it is asked for
            yield x
    elif depth and type(x) in (list, tuple, dict) and len(x) <= LONGEST:
        for part in x.values() if type(x) is dict else x:
            yield from tensors_in(part, depth - 1)
