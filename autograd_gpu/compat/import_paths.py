"""Import finders: modules of `compat` have their paths in the package, and placeholders make modules of their own.

`autograd_gpu.multiprocessing` is `autograd_gpu.compat.multiprocessing`, and `autograd_gpu.fx` has the names that
placeholders.py lists for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..missing_names import PACKAGE, getattr_of


class AliasFinder(MetaPathFinder, Loader):
    """Finds `a.x` as `b.x`, the same object, where `a` is another path of the module b.

    It goes before Python's own finders, which would load the file of b.x a second time, as `a.x`.
    """

    def target_of(self, name: str) -> str | None:
        """The module that `name` is another path of; None if it is none."""
        parent, _, leaf = name.rpartition(".")
        original = getattr(sys.modules.get(parent), "__name__", parent)
        return f"{original}.{leaf}" if original != parent and original.startswith(PACKAGE) else None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        original = self.target_of(name)
        if original is None:
            return None
        try:
            exists = importlib.util.find_spec(original) is not None
        except ModuleNotFoundError:  # a parent of it
            return None
        return ModuleSpec(name, self) if exists else None

    def exec_module(self, module: ModuleType) -> None:
        """Puts the target into the place of the new, empty `module`."""
        original = self.target_of(module.__name__)
        assert original is not None  # find_spec has seen it
        sys.modules[module.__name__] = importlib.import_module(original)


class PrefixFinder(AliasFinder):
    """Finds `prefix.x` as the module `target.x`, the same object, where there is one."""

    def __init__(self, prefix: str, target: str) -> None:
        self.prefix, self.target = f"{prefix}.", f"{target}."

    def target_of(self, name: str) -> str | None:
        if not name.startswith(self.prefix) or name.startswith(self.target):
            return None
        return self.target + name.removeprefix(self.prefix)


class PlaceholderFinder(MetaPathFinder, Loader):
    """Makes the modules that consist of placeholders."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(f"{PACKAGE}."):
            return None
        placeholders = importlib.import_module(f"{PACKAGE}.compat.placeholders")
        below = name.removeprefix(f"{PACKAGE}.") in placeholders.NAMES
        return ModuleSpec(name, self, is_package=True) if below else None

    def exec_module(self, module: ModuleType) -> None:
        """Fills the new module."""
        placeholders = importlib.import_module(f"{PACKAGE}.compat.placeholders")
        names = placeholders.of(module.__name__.removeprefix(f"{PACKAGE}."))
        module.__doc__ = "Names of PyTorch that are not here; they raise when they are called."
        module.__dict__.update(names, __all__=list(names), __getattr__=getattr_of(module.__name__))


def lookup(path: str, name: str) -> Any:
    """A placeholder or a module of `compat` for the attribute `name` of the package's module `path`; None without."""
    dotted = f"{path}.{name}" if path else name
    placeholders = importlib.import_module(f"{PACKAGE}.compat.placeholders")
    if (entry := placeholders.find(path, name)) is not None:
        return entry
    try:
        exists = dotted in placeholders.NAMES or importlib.util.find_spec(f"{PACKAGE}.compat.{dotted}") is not None
    except ModuleNotFoundError:  # a parent of it
        return None
    return importlib.import_module(f"{PACKAGE}.{dotted}") if exists else None


def install() -> None:
    """Adds the finders; the package's own modules go before those of `compat`."""
    sys.meta_path.insert(0, AliasFinder())
    sys.meta_path += [PrefixFinder(PACKAGE, f"{PACKAGE}.compat"), PlaceholderFinder()]
