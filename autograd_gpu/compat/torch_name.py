"""`as_torch`: this library under the name `torch`, for programs and libraries that import PyTorch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import version
from ..missing_names import PACKAGE
from . import torch_version
from .import_paths import PrefixFinder

NAME = "torch"


class _Metadata(Distribution):
    """What importlib.metadata says about `torch`."""

    def read_text(self, filename: str) -> str | None:
        return f"Name: {NAME}\nVersion: {torch_version.__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).parent / path


class _TorchFinder(PrefixFinder, DistributionFinder):
    def find_distributions(self, context: Any = DistributionFinder.Context()) -> Iterator[Distribution]:  # noqa: B008
        return iter([_Metadata()] if context.name in (None, NAME) else [])


class AsTorch:
    """What `as_torch` returns: a context manager that takes the name `torch` back at its end."""

    _in_use = 0

    def __init__(self) -> None:
        self._active = True
        AsTorch._in_use += 1

    def undo(self) -> None:
        """Takes the name back, unless another call of `as_torch` still needs it; a second call has no effect."""
        if not self._active:
            return
        self._active = False
        AsTorch._in_use -= 1
        if AsTorch._in_use == 0:
            sys.meta_path.remove(_FINDER)
            for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
                del sys.modules[name]

    def __enter__(self) -> ModuleType:
        return sys.modules[NAME]

    def __exit__(self, *exception: object) -> None:
        self.undo()


_FINDER = _TorchFinder(NAME, PACKAGE)


def _module(name: str, original: ModuleType, **own: Any) -> ModuleType:
    """A module of that name with the attributes of `original`, except for `own`."""
    module = ModuleType(name, original.__doc__)
    module.__dict__.update(own, __spec__=ModuleSpec(name, None, is_package=True), __path__=[],
                           __getattr__=functools.partial(getattr, original), __dir__=lambda: dir(original))  # fmt: skip
    return module


def as_torch() -> AsTorch:
    """Puts this library into `sys.modules` as `torch`, with all its submodules, until the result's `undo()`.

    Call it before anything imports torch; the result is a context manager, too. `torch.__version__` is the version of
    PyTorch whose behaviour is followed. What was imported from `torch` meanwhile stays usable after `undo`.
    RuntimeError if PyTorch itself is imported already. docs/from-pytorch.md has an example.
    """
    if _FINDER in sys.meta_path:
        return AsTorch()
    if NAME in sys.modules:
        raise RuntimeError("as_torch: PyTorch is imported already; call ag.as_torch() in a new process, before the "
                           "first import of torch and of what imports torch")
    number = torch_version.__version__
    torch = _module(NAME, sys.modules[PACKAGE], __version__=number,
                    version=_module(f"{NAME}.version", version, __version__=number))  # fmt: skip
    sys.modules.update({NAME: torch, f"{NAME}.version": torch.version})
    sys.meta_path.insert(0, _FINDER)
    return AsTorch()
