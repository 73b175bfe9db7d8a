"""What calls may say in other words: `axis` for `dim`, `keepdims` for `keepdim`, `size_average` and `reduce` for
`reduction`, and 0-d tensors for numbers.

A function has its parameters and, behind them, one by NumPy's word for each: a test of that is all that a call pays, a
few nanoseconds, where collecting unknown keywords would cost a dict per call. Both words in one call are an error. For
`dim=None` and `keepdim=False`, the defaults, a call that spells them out looks like one that does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import warn_user
from ..tensor import Tensor
from .source import Source, deferred

WORDS = {"dim": "axis", "keepdim": "keepdims"}
REDUCTION, OLD = "reduction", ("size_average", "reduce")
REQUIRED = inspect.Parameter.empty


class _Absent:
    def __repr__(self) -> str:
        return "..."


ABSENT = _Absent()  # the default of what a call may give by either word


def words_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameter -> NumPy's word, for those that have one; `parameters` are names with their defaults."""
    return {name: word for name, word in WORDS.items() if name in parameters and word not in parameters}


def _is_plain(default: Any) -> bool:
    """Whether a parameter keeps its default: whoever gives it by name then says nothing new."""
    return default is None or default is False


def written_defaults(parameters: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The defaults, as text, of those parameters that cannot keep theirs, and of NumPy's words."""
    words = words_of(parameters)
    changed, late = {}, False
    for name, default in parameters.items():
        late = late or (name in words and not _is_plain(default))
        if late and (default is REQUIRED or (name in words and not _is_plain(default))):
            changed[name] = "ABSENT"
    added = {word: "None" if _is_plain(parameters[name]) else "ABSENT" for name, word in words.items()}
    return changed, {**added, **(dict.fromkeys(OLD, "None") if REDUCTION in parameters else {})}


def write_words(w: Source, function: str, parameters: Mapping[str, Any]) -> None:
    """The lines that bring both words together, at the head of `function`."""
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


# Attributes that are numbers where their default does not tell.
_NUMBERS = frozenset(("atol", "eps", "k", "neginf", "p", "posinf", "rtol", "threshold", "value"))


def numbers_of(parameters: Mapping[str, Any]) -> list[str]:
    """The parameters that are numbers, for which a 0-d tensor is taken; dimensions are not among them."""
    return [name for name, default in parameters.items()
            if (type(default) in (int, float) or name in _NUMBERS) and not name.startswith("dim")]


def as_number(function: str, name: str, value: Any) -> Any:
    """A number in a call: `value`, or that of a 0-d tensor, whose gradient nobody would compute."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim or value.requires_grad:
        what = "requires grad" if value.requires_grad else f"has shape {list(value.shape)}"
        raise TypeError(f"{function}(): argument '{name}' must be a number or a 0-d tensor that does not require grad; "
                        f"this tensor {what}. Take value.item(), or multiply by it yourself")
    return value.item()


def as_numbers(function: str, **given: Any) -> list[Any]:
    """The same for several arguments by their names."""
    values = [*given.values()]
    for value in values:
        if isinstance(value, Tensor):
            return [as_number(function, name, value) for name, value in given.items()]
    return values


def old_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """The `reduction` that the deprecated arguments of losses mean, with PyTorch's warning."""
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


def noted(doc: str | None, parameters: Mapping[str, Any], *more: str) -> str | None:
    """A docstring, indented as in a block, that also says `more` and which words are taken."""
    words = [f"`{word}` is taken for `{name}`" for name, word in words_of(parameters).items()]
    notes = [", ".join(each) for each in (more, words) if each]
    return "".join([doc.rstrip(), *(f"\n\n    {note}." for note in notes), "\n    "]) if notes and doc else doc


SCOPE: dict[str, Any] = {"ABSENT": ABSENT, "as_number": as_number, "missing": missing,
                         "old_reduction": old_reduction, "twice": twice}  # fmt: skip


def other_words(function: Callable[..., Any]) -> Any:
    """`function`, of plain Python, with NumPy's words for `dim` and `keepdim`, and the old ones for `reduction`.

    >>> ag.max(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), axis=1).values
    tensor([2., 4.])
    """
    signature = inspect.signature(function)
    given = signature.parameters.values()
    parameters = {p.name: p.default for p in given}

    def write(w: Source) -> dict[str, Any]:
        changed, words = written_defaults(parameters)
        own = [(p, changed.get(p.name) or (None if p.default is REQUIRED else f"DEFAULTS[{p.name!r}]")) for p in given]
        star = next((i for i, p in enumerate(given) if p.kind is p.KEYWORD_ONLY), None)
        parts = [p.name if default is None else f"{p.name}={default}" for p, default in own]
        passed = [f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in given]
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
