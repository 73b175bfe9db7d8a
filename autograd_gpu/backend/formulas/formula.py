"""A formula: a Python function of elements and numbers, traced at its first use.

    def formula(x, *, alpha=1.0): return select(x <= 0, expm1(x) * alpha, x)

Positional parameters are elements of arrays. Keyword-only parameters are numbers; those whose default is a bool or a
string are options, of which the function may ask the values: there is a trace for each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .derivative import derivatives
from .expression import Expression, as_expression, element, number

Options = tuple[tuple[str, Any], ...]  # values of the options by name


class Formula:
    """The function `function`, by the name `name`, with what its signature says."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        self.function, self.name = function, name or function.__name__
        parameters = inspect.signature(function).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.inputs = tuple([p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD])
        self.options = {name: default for name, default in keywords.items() if isinstance(default, (bool, str))}
        self.numbers = {name: default for name, default in keywords.items() if name not in self.options}
        self.derived = functools.cache(self._derived)
        if len(self.inputs) + len(keywords) != len(parameters) or not self.inputs:
            raise TypeError(f"formula {self.name}: parameters are elements, at least one, and keyword-only numbers")

    def traced(self, options: Options = ()) -> dict[str, Expression]:
        """The results by name; a single one is `out`."""
        numbers = {name: number(name) for name in self.numbers}
        result = self.function(*map(element, self.inputs), **numbers, **{**self.options, **dict(options)})
        results = result if isinstance(result, dict) else {"out": result}
        return {name: as_expression(e) for name, e in results.items()}

    def _derived(self, alpha: tuple[int, ...], options: Options = ()) -> Expression:
        """The single result, derived alpha[i] times by the i-th input."""
        (result,) = self.traced(options).values()
        return derivatives(result, self.inputs, alpha)
