"""What is public: the modules that `autograd_gpu.__all__` leads to, their names, and the page that has each object."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import autograd_gpu

TOP = "autograd_gpu"


@dataclass
class Module:
    """A public module, by the path that users write, and its public names."""

    path: str
    module: ModuleType
    names: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)  # what is described here; other names are links


def public_modules() -> dict[str, Module]:
    """The public modules by their shortest path, with each object described in one of them."""
    modules = dict(walk())
    homes: dict[int, tuple[tuple[int, bool, int], str, str]] = {}
    for path, module in modules.items():
        for name, value in module.names.items():
            if is_described(value):
                rank = (-closeness(module, value), name != value.__name__, path.count("."))
                homes[id(value)] = min(homes.get(id(value), (rank, path, name)), (rank, path, name))
            elif not inspect.ismodule(value):
                module.own[name] = value
    for _, path, name in homes.values():
        modules[path].own[name] = modules[path].names[name]
    return modules


def walk() -> Iterator[tuple[str, Module]]:
    """Every module once, from the top down."""
    queue, seen = deque([(TOP, autograd_gpu)]), {autograd_gpu}
    while queue:
        path, module = queue.popleft()
        names = names_of(module)
        yield path, Module(path, module, names)
        for name, value in names.items():
            if inspect.ismodule(value) and value not in seen:
                seen.add(value)
                queue.append((f"{path}.{name}", value))


def names_of(module: ModuleType) -> dict[str, Any]:
    """What `__all__` lists; without one, what the module itself defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return {name: getattr(module, name) for name in sorted(listed) if not name.startswith("_")}
    return {name: value for name, value in sorted(vars(module).items())
            if not name.startswith("_") and is_described(value) and value.__module__ == module.__name__}


def is_described(value: Any) -> bool:
    """Whether the value is a function or class of ours, which has a docstring; numbers and dtypes have none."""
    ours = getattr(value, "__module__", None) or ""
    return ours.startswith(TOP) and (inspect.isclass(value) or (callable(value) and hasattr(value, "__name__")))


def closeness(module: Module, value: Any) -> int:
    """How much of the path to the value's source a package shares. `ops` and plain modules do not count."""
    name = module.module.__name__
    is_home = hasattr(module.module, "__path__") and module.path != f"{TOP}.ops" and f"{TOP}.compat" not in name
    return name.count(".") + 1 if is_home and f"{value.__module__}.".startswith(f"{name}.") else 0


def home_of(modules: dict[str, Module]) -> dict[int, str]:
    """The full name under which each described object stands, by its id."""
    return {id(value): f"{path}.{name}" for path, module in modules.items()
            for name, value in module.own.items() if is_described(value)}
