"""A formula as calls of NumPy's ufuncs for each element of lists of arrays, by `map`.

Most functions of lists are one ufunc, so that an element takes one call and no Python code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from .expression import as_expression, element, number
from .lowering import Operand, Program, choices, lowered, settled, written_out
from .numpy_code import UFUNCS
from .numpy_source import called, defined, each_source
from .update import host_function

LIST, NUMBER, ONE, OTHER = "l", "n", "1", "o"  # an argument: one per element, a number of all, the number 1, or else
MAKES: dict[str, Callable[[str], Any]] = {LIST: element, NUMBER: number, ONE: lambda _: 1}
OUT_BY_KEYWORD = frozenset(("minimum", "maximum"))  # alone, from NumPy 2.5 on


class Calls(NamedTuple):
    """`compute` gets the operands of the program, and the array for the result if there is one."""

    program: Program
    compute: Callable[..., Any]
    operands: Sequence[Operand]
    values: Callable[..., tuple[float, ...]]  # the program's numbers, from the arguments that are numbers

    @property
    def is_one(self) -> bool:
        """Whether it is one call, which rounds once."""
        return len(self.program.instructions) == 1

    @property
    def is_bare(self) -> bool:
        """Whether it is a ufunc of arrays alone."""
        return isinstance(self.compute, np.ufunc) and all(o.kind == "i" for o in self.operands)

    def arguments(self, numbers: dict[str, float], dtype: np.dtype | None) -> list[int | Iterable[Any]]:
        """For each operand the place of a list, or a number for all elements: an array of `dtype`, if all have it."""
        program = self.program
        values = {"n": self.values(**numbers) if program.numbers else (), "c": program.constants}
        arguments: list[int | Iterable[Any]] = []
        for kind, place in self.operands:
            value = None if kind == "i" else values[kind][place]  # NumPy would convert a number in every call
            number = value if dtype is None or value is None else np.array(value, dtype)
            arguments.append(place if kind == "i" else repeat(number))
        return arguments


class ListCode:
    """The calls of a formula of arguments of these kinds, which are named a0, a1, ..."""

    def __init__(self, name: str, formula: Callable[..., Any], kinds: str) -> None:
        self.name, names = name, [f"a{k}" for k in range(len(kinds))]
        made = formula(*[MAKES[kind](n) for kind, n in zip(kinds, names, strict=True)])
        self.result = None if made is None else written_out(as_expression(made))
        self.lists, self.numbers = [[n for kind, n in zip(kinds, names, strict=True) if kind == own] for own in "ln"]
        self.conditions = [] if self.result is None else choices([self.result])
        self.outcomes = host_function(self.conditions, self.numbers)
        self.calls = functools.cache(self._calls)

    def chosen(self, numbers: dict[str, float]) -> Calls | None:
        """The calls for these numbers by name; None if the formula is not a sequence of ufuncs."""
        return self.calls(tuple(map(bool, self.outcomes(**numbers))) if self.conditions else ())

    def _calls(self, outcomes: tuple[bool, ...]) -> Calls | None:
        if self.result is None:
            return None
        result = settled(self.result, dict(zip(map(str, self.conditions), outcomes, strict=True)))
        program = lowered([result], self.lists)
        operations = [i.op for i in program.instructions]
        if not operations or "select" in operations:  # a choice between arrays is a matter of forward
            return None
        values = host_function(program.numbers, self.numbers)
        if len(operations) == 1 and operations[0] not in OUT_BY_KEYWORD:
            return Calls(program, UFUNCS[operations[0]], program.instructions[0].args, values)
        scope: dict[str, Any] = {called(op): UFUNCS[op] for op in operations}
        each = defined(f"<formula {self.name} of lists>", each_source(program), scope)["each"]
        return Calls(program, each, program.operands, values)

