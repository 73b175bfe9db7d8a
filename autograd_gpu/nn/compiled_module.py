"""CompiledModule: what `ag.compile` returns for a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..compilation import WRAPPERS, Compiled
from .module import Module
from .registry import own_dict, read

_OWN = frozenset(("_orig_mod", "_ag_compiled", "_ag_kinds", "_ag_hooks"))
_FACTS = frozenset(("counts", "recompiles", "explain", "print_readable", "reset"))


class CompiledModule(Module):
    """A module whose calls are replayed; `ag.compile` makes it.

    The module is its child `_orig_mod`, as in PyTorch: `state_dict` has that prefix. Attributes are those of the
    module, also where they are set; hooks that are registered here run outside of the compiled call.

    >>> net = ag.compile(ag.nn.Sequential(ag.nn.Linear(2, 3), ag.nn.ReLU()))
    >>> [name for name, _ in net.named_parameters()]
    ['_orig_mod.0.weight', '_orig_mod.0.bias']
    >>> len(net), net[1], net.eval().training
    (2, ReLU(), False)
    """

    _orig_mod: Any

    def __init__(self, compiled: Compiled) -> None:
        super().__init__()
        del own_dict(self)["training"]  # that of the module counts
        self._ag_compiled = compiled
        self._orig_mod = compiled._fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._ag_compiled(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles the module in place."""
        self._orig_mod.compile(*args, **kwargs)

    # ---- attributes of the module ------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or name == "__setstate__":
            return read(self, name)
        if name in _FACTS and not hasattr(self._orig_mod, name):
            return getattr(self._ag_compiled, name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_orig_mod" not in own_dict(self):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_FACTS, *dir(self._orig_mod)})

    def _ag_register_new(self, *given: Any) -> None:
        self._orig_mod._ag_register_new(*given)

    # ---- that of a container -----------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orig_mod)

    def __contains__(self, x: Any) -> bool:
        return x in self._orig_mod

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __setitem__(self, key: Any, module: Any) -> None:
        self._orig_mod[key] = module

    def __delitem__(self, key: Any) -> None:
        del self._orig_mod[key]


WRAPPERS[Module] = CompiledModule
