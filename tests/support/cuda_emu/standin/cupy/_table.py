"""The committed table of what the real CuPy offers: the stand-in offers nothing else."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

API: dict[str, Any] = json.loads((pathlib.Path(__file__).parent / "api.json").read_text())


def offer(module: str, names: Mapping[str, Any], make: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The __getattr__ of `module`: what CuPy has there, from `names`, the table's constants or make(name)."""

    def get(name: str) -> Any:
        if name not in API[module]:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in names:
            found = names[name]
        elif isinstance(API[module][name], int):
            found = API[module][name]
        else:
            found = None if make is None else make(name)
            if found is None:
                raise missing(module, name)
        setattr(sys.modules[module], name, found)
        return found

    return get


def missing(owner: str, name: str) -> NotImplementedError:
    return NotImplementedError(f"{owner}.{name} exists in CuPy, but the CPU stand-in does not have it (yet)")
