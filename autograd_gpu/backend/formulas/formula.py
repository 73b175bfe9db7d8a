"""A formula: a Python function of elements and numbers, traced at its first use.

    def formula(x, *, alpha=1.0): return select(x <= 0, expm1(x) * alpha, x)

Positional parameters are elements of arrays. Keyword-only parameters are numbers; those whose default is a bool or a
string are options, of which the function may ask the values: there is a trace for each. An option whose default is a
function follows from the numbers:

    def formula(x, *, slope=0.01, gentle=lambda slope: 0 < slope <= 1): ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .derivative import derivatives
from .expression import Expression, as_expression, constant, element, number

Options = tuple[tuple[str, Any], ...]  # values of the options by name


class Formula:
    """The function `function`, by the name `name`, with what its signature says.

    `numbers` and `options` are the defaults by name, `computed` the functions of numbers. The elements in `fixed` are
    numbers of a call, those in `absent` are None.
    """

    def __init__(
        self, function: Callable[..., Any], name: str | None = None, fixed: tuple[str, ...] = (),
        absent: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.function, self.name, self.fixed, self.absent = function, name or function.__name__, fixed, absent
        parameters = inspect.signature(function).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        listed = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.parameters, self.inputs = listed, tuple([name for name in listed if name not in absent])
        self.computed = {name: default for name, default in keywords.items() if inspect.isfunction(default)}
        self.options = {name: default for name, default in keywords.items() if isinstance(default, (bool, str))}
        self.numbers = {n: default for n, default in keywords.items() if n not in {**self.options, **self.computed}}
        self.derived = functools.cache(self._derived)
        if len(listed) + len(keywords) != len(parameters) or not self.inputs:
            raise TypeError(f"formula {self.name}: parameters are elements, at least one, and keyword-only numbers")

    def chosen(self, values: Mapping[str, Any]) -> Options:
        """The options for these values of numbers and options; those that follow from numbers included."""
        written = {name: values.get(name, default) for name, default in self.options.items()}
        asked = {name: inspect.signature(function).parameters for name, function in self.computed.items()}
        computed = {n: f(**{p: values.get(p, self.numbers[p]) for p in asked[n]}) for n, f in self.computed.items()}
        return (*written.items(), *computed.items())

    def traced(self, options: Options = (), ones: tuple[str, ...] = ()) -> dict[str, Expression]:
        """The results by name; a single one is `out`. The numbers in `ones` are the constant 1."""
        known: dict[str, Any] = {n: constant(1) if n in ones else number(n) for n in (*self.numbers, *self.fixed)}
        known |= dict.fromkeys(self.absent)
        options = options or self.chosen({})
        elements = [known[name] if name in known else element(name) for name in self.parameters]
        result = self.function(*elements, **{name: known[name] for name in self.numbers}, **dict(options))
        results = result if isinstance(result, dict) else {"out": result}
        return {name: as_expression(e) for name, e in results.items()}

    def _derived(self, alpha: tuple[int, ...], options: Options = (), ones: tuple[str, ...] = ()) -> Expression:
        """The single result, derived alpha[i] times by the i-th input."""
        (result,) = self.traced(options, ones).values()
        return derivatives(result, self.inputs, alpha)
