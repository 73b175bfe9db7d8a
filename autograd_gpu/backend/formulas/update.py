"""An update: a formula that replaces some of the arrays that it reads, as the step of an optimizer does.

    @update
    def sgd(p, g, momentum_buffer=None, *, sign, decay, lr, ...):
        g = sign * g + decay * p
        ...
        return {"p": p - lr * g}

Positional parameters are elements of arrays; those with the default None may be left out. Keyword-only parameters are
numbers. The results are named after the arrays that they replace. A number that is exactly 0, 1 or -1 is a constant of
the trace, in which terms with the factor 0 vanish: with decay 0 the parameter is not read. `general` is the trace for
all numbers; where a term with an infinite factor has to vanish there as well, the formula says so by a `select`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expression import (
    CONSTANT,
    ON_HOST,
    ZERO,
    Expression,
    as_expression,
    constant,
    element,
    make,
    number,
    ordered,
    rebuilt,
    text,
)
from .lowering import Program, lowered

MINUS_ONE = constant(-1)
EXACT = (0.0, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Trace:
    """An update of certain arrays, with its results by the names of the arrays that they replace.

    `label` is its name, followed by those of the arrays that may be left out, and are there.
    """

    name: str
    label: str
    inputs: tuple[str, ...]
    outputs: dict[str, Expression]
    numbers: tuple[str, ...]

    @functools.cached_property
    def program(self) -> Program:
        """The outputs in order, from the inputs."""
        return lowered([*self.outputs.values()], self.inputs)

    @functools.cached_property
    def places(self) -> tuple[int, ...]:
        """Which inputs the outputs replace."""
        return tuple([self.inputs.index(name) for name in self.outputs])

    @functools.cached_property
    def values(self) -> Callable[..., tuple[Any, ...]]:
        """The program's numbers, from those of the update by keyword: compiled, as a step asks for them each time."""
        return host_function(self.program.numbers, self.numbers)


def host_function(expressions: Sequence[Expression], numbers: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """The function of numbers by keyword that computes expressions of them, in double; or of 0-d arrays on a device."""
    listed = "".join([f"{text(e)}, " for e in expressions])
    parameters = f"*, {', '.join(numbers)}" if numbers else ""
    function: Callable[..., tuple[Any, ...]] = eval(f"lambda {parameters}: ({listed})", {**ON_HOST})
    return function


class Update:
    """The update that a function states; see the module. `on` says which of its arrays there are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__
        parameters = inspect.signature(function).parameters.values()
        self.arrays = tuple([p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD])
        self.optional = frozenset([p.name for p in parameters if p.default is None])
        self.numbers = tuple([p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
        self.on = functools.cache(self._on)

    def __repr__(self) -> str:
        return f"<update {self.name}>"

    def _on(self, *arrays: str) -> Variant:
        """The update of these arrays."""
        return Variant(self, arrays)


class Variant:
    """An update of certain arrays."""

    def __init__(self, update: Update, arrays: tuple[str, ...]) -> None:
        missing = [name for name in update.arrays if name not in arrays]
        if not update.optional.issuperset(missing) or len(arrays) + len(missing) != len(update.arrays):
            raise TypeError(f"the update {update.name} takes the arrays {', '.join(update.arrays)}, not "
                            f"{', '.join(arrays)}")
        self.update, self.arrays = update, arrays
        self.label = "_".join([update.name, *[name for name in arrays if name in update.optional]])
        self._traces: dict[tuple[float | None, ...], Trace] = {}

    def trace(self, numbers: Mapping[str, float]) -> Trace:
        """The trace for these numbers, which are in the order of the formula.

        Those in EXACT are constants, the others are known to be none of them.
        """
        fixed = tuple([value if value in EXACT else None for value in numbers.values()])
        trace = self._traces.get(fixed)
        if trace is None:
            if tuple(numbers) != self.update.numbers:
                raise TypeError(f"the update {self.update.name} takes the numbers {', '.join(self.update.numbers)}, "
                                f"not {', '.join(numbers)}")
            given = {name: number(name) if value is None else constant(value)
                     for name, value in zip(numbers, fixed, strict=True)}  # fmt: skip
            trace = self._traces[fixed] = self._made(given, _without_zeros)
        return trace

    @functools.cached_property
    def general(self) -> Trace:
        """The trace for all values of the numbers."""
        return self._made({name: number(name) for name in self.update.numbers}, list)

    def _made(
        self, numbers: Mapping[str, Expression], simplified: Callable[[Iterable[Expression]], list[Expression]]
    ) -> Trace:
        results = self.update.function(**{name: element(name) for name in self.arrays}, **numbers)
        outputs = zip(results, simplified(map(as_expression, results.values())), strict=True)
        return Trace(self.update.name, self.label, self.arrays, dict(outputs), self.update.numbers)


def update(function: Callable[..., Any]) -> Update:
    """The update that a function states."""
    return Update(function)


# ---- numbers that are 0, 1 or -1 -------------------------------------------------------------------------


def _without_zeros(outputs: Iterable[Expression]) -> list[Expression]:
    """The outputs without terms that are 0 because a number is, and without factors 1 and -1."""
    listed, made = [*outputs], dict[Expression, Expression]()
    for e in ordered(listed):
        made[e] = _shorter(rebuilt(e, [made[a] for a in e.args]))
    return [made[e] for e in listed]


def _shorter(e: Expression) -> Expression:
    if e.op == "mul":
        a, b = e.args
        if ZERO in e.args:
            return ZERO
        return _negated(b) if a is MINUS_ONE else _negated(a) if b is MINUS_ONE else e
    if e.op == "div" and e.args[0] is ZERO:
        return ZERO
    if e.op in ("add", "sub"):
        a, b = e.args
        return _sum(a, b, adds=e.op == "add")
    if e.op == "select":
        condition, a, b = e.args
        holds = _holds(condition)
        return e if holds is None else a if holds else b
    return e


def _sum(a: Expression, b: Expression, adds: bool) -> Expression:
    """a + b or a - b; a term -x is subtracted, which is the same operation."""
    if b is ZERO:
        return a
    if a is ZERO:
        return b if adds else _negated(b)
    if b.op == "neg":
        return make("sub" if adds else "add", a, b.args[0])
    if a.op == "neg" and adds:
        return b - a.args[0]
    return a + b if adds else a - b


def _negated(e: Expression) -> Expression:
    return e.args[0] if e.op == "neg" else -e


def _holds(condition: Expression) -> bool | None:
    """What is known of a comparison of a number with one of EXACT; a number that is no constant is none of them."""
    if condition.op != "eq" or not condition.uniform or condition.args[1].op != CONSTANT:
        return None
    value, asked = condition.args[0], condition.args[1].value
    if value.op == CONSTANT:
        return bool(value.value == asked)
    return False if value.op == "number" and asked in EXACT else None
