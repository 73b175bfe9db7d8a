"""NumPy's protocol `__array_function__`: np.concatenate([t, u]) is `ag.cat([t, u])`, with NumPy's arguments.

1. The function has a row: its arguments are named as NumPy names them, those that have NumPy's default are dropped,
   `run` gets the others. It calls ops, so the result is recorded.
2. An argument that `run` does not take is a TypeError that names it. `out` is a tensor, which is written.
3. A function without a row is a TypeError that names the nearest function. Nothing is converted to an array.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.extend import RECORD, Tensor
from .answers import ANSWERS
from .arranging import ARRANGING
from .elements import ELEMENTS
from .products import PRODUCTS
from .reductions import REDUCTIONS
from .refused import INSTEAD, way_out
from .table import Row

FUNCTIONS: dict[str, Row] = {**REDUCTIONS, **ARRANGING, **PRODUCTS, **ELEMENTS, **ANSWERS}
PUBLIC: list[str] = []  # the public functions, which binding.py fills in

_IN_C: dict[str, Callable[..., Any]] = {  # parameters that inspect.signature cannot read
    "bincount": lambda x, weights=None, minlength=0: None,
    "concatenate": lambda arrays, axis=0, out=None, dtype=None, casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "empty_like": lambda prototype, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "inner": lambda a, b: None,
    "may_share_memory": lambda a, b, max_work=None: None,
    "shares_memory": lambda a, b, max_work=None: None,
    "vdot": lambda a, b: None,
    "where": lambda condition, x=None, y=None: None,
}


class Face(NamedTuple):
    """NumPy's parameters of a function."""

    names: tuple[str, ...]  # of those that go by position
    spread: bool  # whether it takes any number of them
    defaults: dict[str, Any]
    taken: frozenset[str]  # what `run` takes of them, and `out`


@functools.cache
def face(function: Any, name: str) -> Face:
    parameters = inspect.signature(_IN_C.get(name, function)).parameters.values()
    run = inspect.signature(FUNCTIONS[name].run).parameters
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    taken = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL and (p.name in run or p.name == "out")]
    more = [p.name for p in run.values() if p.kind is p.KEYWORD_ONLY or name == "pad"]  # of **kwargs
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    spread = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return Face(tuple(by_position), spread, defaults, frozenset([*taken, *more]))


def array_function(self: Tensor, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's protocol: np.sum(t), np.concatenate([t, u]) call the op of the same meaning, which records."""
    if not all(issubclass(kind, (Tensor, np.ndarray)) or kind.__module__.partition(".")[0] == "cupy" for kind in types):
        return NotImplemented
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    row = FUNCTIONS.get(name)
    if row is None:
        raise TypeError(f"np.{name} is not defined for tensors; {way_out(name, PUBLIC)}")
    parameters = face(function, name)
    named = kwargs if parameters.spread else {**dict(zip(parameters.names, args, strict=False)), **kwargs}
    named = {key: v for key, v in named.items() if key not in parameters.defaults or v is not parameters.defaults[key]}
    for key in named.keys() - parameters.taken:
        raise TypeError(f"np.{name}: {key}={named[key]!r:.40} is not defined for tensors; "
                        f"{INSTEAD.get(key, 'leave it out')}, or call ag.{row.use}")
    out = named.pop("out", None)
    positional = args if parameters.spread else ()
    if out is None:
        return row.run(*positional, **named)
    if not isinstance(out, Tensor):
        raise TypeError(f"np.{name}: out= must be a tensor, not {type(out).__name__}; {INSTEAD['out']}")
    arguments = (*positional, *named.values())
    return RECORD.written(f"np.{name}", out, arguments, row.run, *positional, **named)
