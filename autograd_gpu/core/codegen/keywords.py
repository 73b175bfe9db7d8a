"""Generates the parameter aliases of functions, and accepts 0-d tensors for numbers.

The aliases are `axis` for `dim`, `keepdims` for `keepdim`, `size_average` and `reduce` for `reduction`. A function has
its own parameters, followed by their aliases. A call pays only for one test per alias, a few nanoseconds; `**kwargs`
would cost a dict per call. A call that gives both names of a parameter is an error. Calls that pass the defaults
`dim=None` and `keepdim=False` explicitly cannot be told from calls that omit them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import warn_user
from ...missing_names import warn_once
from ..tensor import Tensor
from .source import Source, deferred

WORDS = {"dim": "axis", "keepdim": "keepdims"}
REDUCTION, OLD = "reduction", ("size_average", "reduce")
REQUIRED = inspect.Parameter.empty


class _Absent:
    def __repr__(self) -> str:
        return "..."


ABSENT = _Absent()  # the default of a parameter that has an alias, and of the alias


def words_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Maps parameters to their NumPy aliases, if they have one; `parameters` maps names to defaults."""
    return {name: word for name, word in WORDS.items() if name in parameters and word not in parameters}


def _is_plain(default: Any) -> bool:
    """Whether a parameter with an alias keeps its default, so that passing the default equals omitting it."""
    return default is None or default is False


def written_defaults(parameters: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The defaults, as source text, of parameters that cannot keep theirs, and those of the aliases."""
    words = words_of(parameters)
    changed, late = {}, False
    for name, default in parameters.items():
        late = late or (name in words and not _is_plain(default))
        if late and (default is REQUIRED or (name in words and not _is_plain(default))):
            changed[name] = "ABSENT"
    added = {word: "None" if _is_plain(parameters[name]) else "ABSENT" for name, word in words.items()}
    return changed, {**added, **(dict.fromkeys(OLD, "None") if REDUCTION in parameters else {})}


def write_words(w: Source, function: str, parameters: Mapping[str, Any]) -> None:
    """Writes the lines at the start of `function` that merge aliases into their parameters."""
    for name, word in words_of(parameters).items():
        default = parameters[name]
        both = f"twice({function!r}, {name!r}, {word!r})"
        if _is_plain(default):
            w(f"if {word} is not None:")
            w(f"if {name} is not {default!r}: raise {both}", 1)
            w(f"{name} = {word}", 1)
            continue
        other = "" if default is REQUIRED else f" if {word} is not ABSENT else {default!r}"
        w(f"if {name} is ABSENT: {name} = {word}{other}")
        w(f"elif {word} is not ABSENT: raise {both}")
    if REDUCTION in parameters:
        w("if size_average is not None or reduce is not None: reduction = old_reduction(size_average, reduce)")
    needed = [name for name in written_defaults(parameters)[0] if parameters[name] is REQUIRED]
    if needed:
        w(f"if {' or '.join(f'{name} is ABSENT' for name in needed)}: "
          f"raise missing({function!r}, {', '.join(f'{name}={name}' for name in needed)})")


# Attributes that are numbers although their default does not show it.
_NUMBERS = frozenset(("atol", "eps", "k", "neginf", "p", "posinf", "rtol", "threshold", "value"))


def numbers_of(parameters: Mapping[str, Any]) -> list[str]:
    """The parameters that are numbers, excluding dimensions; they also accept 0-d tensors."""
    return [name for name, default in parameters.items()
            if (type(default) in (int, float) or name in _NUMBERS) and not name.startswith("dim")]


def as_number(function: str, name: str, value: Any) -> Any:
    """Returns `value`, or the number in it if it is a 0-d tensor; TypeError if that requires grad."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim or value.requires_grad:
        what = "requires grad" if value.requires_grad else f"has shape {list(value.shape)}"
        raise TypeError(f"{function}(): argument '{name}' must be a number or a 0-d tensor that does not require grad; "
                        f"this tensor {what}. Take value.item(), or multiply by it yourself")
    return value.item()


def numbers_last(function: str, count: int, *values: Any) -> tuple[Any, ...]:
    """The arguments of a call in PyTorch's deprecated order, numbers before tensors, in ours: `count` tensors first.

    Returns the values as they are if the call is not of that form.
    """
    if not any(isinstance(value, int | float) for value in values[:count]):
        return values
    first = [value for value in values if not isinstance(value, int | float)]
    if len(first) != count:
        return values
    warn_once(f"{function} with numbers first", f"This overload of {function} is deprecated: it has a number before a "
              f"tensor; give the number by its name, as in {function}(..., tensor, alpha=number). This is said once.")
    return (*first, *(value for value in values if isinstance(value, int | float)))


def as_numbers(function: str, **arguments: Any) -> list[Any]:
    """Applies `as_number` to several arguments by name."""
    values = [*arguments.values()]
    for value in values:
        if isinstance(value, Tensor):
            return [as_number(function, name, value) for name, value in arguments.items()]
    return values


def old_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """Converts the deprecated arguments of losses to a `reduction`, with PyTorch's warning."""
    kept = reduce is None or reduce
    meant = "none" if not kept else "mean" if size_average is None or size_average else "sum"
    warn_user(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.")
    return meant


def twice(function: str, name: str, word: str) -> TypeError:
    return TypeError(f"{function}() got '{name}' and '{word}', which are two names of one argument; give one of them")


def missing(function: str, **needed: Any) -> TypeError:
    names = [repr(name) for name, value in needed.items() if value is ABSENT]
    plural = "s" if len(names) > 1 else ""
    return TypeError(f"{function}() missing {len(names)} required argument{plural}: {' and '.join(names)}")


_INDENT = "" if sys.version_info >= (3, 13) else "    "  # of a docstring in a block: from 3.13 on Python dedents it


def noted(doc: str | None, parameters: Mapping[str, Any], *more: str) -> str | None:
    """Appends `more` and the accepted aliases to a docstring, which is indented as in a block."""
    words = [f"`{word}` is taken for `{name}`" for name, word in words_of(parameters).items()]
    notes = [", ".join(group) for group in (more, words) if group]
    if not notes or not doc:
        return doc
    return "".join([doc.rstrip(), *(f"\n\n{_INDENT}{note}." for note in notes), f"\n{_INDENT}"])


SCOPE: dict[str, Any] = {"ABSENT": ABSENT, "as_number": as_number, "missing": missing, "numbers_last": numbers_last,
                         "old_reduction": old_reduction, "twice": twice}  # fmt: skip


def other_words(function: Callable[..., Any]) -> Any:
    """Adds the NumPy aliases of `dim` and `keepdim`, and the deprecated ones of `reduction`, to a plain function.

    >>> ag.max(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), axis=1).values
    tensor([2., 4.])
    """
    signature = inspect.signature(function)
    params = signature.parameters.values()
    parameters = {p.name: p.default for p in params}

    def write(w: Source) -> dict[str, Any]:
        changed, words = written_defaults(parameters)
        own = [(p, changed.get(p.name) or (None if p.default is REQUIRED else f"DEFAULTS[{p.name!r}]")) for p in params]
        star = next((i for i, p in enumerate(params) if p.kind is p.KEYWORD_ONLY), None)
        parts = [p.name if default is None else f"{p.name}={default}" for p, default in own]
        passed = [f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in params]
        if star is not None:
            parts.insert(star, "*")
        w(f"def {name}({', '.join([*parts, *(f'{word}={default}' for word, default in words.items())])}):")
        w.depth = 1
        write_words(w, name, parameters)
        w(f"return function({', '.join(passed)})")
        return {**SCOPE, "function": function, "DEFAULTS": parameters}

    name = function.__name__
    result = deferred(name, write)
    result.__doc__ = noted(function.__doc__, parameters)
    result.__module__, result.__wrapped__ = function.__module__, function
    return result
