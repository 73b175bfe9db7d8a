"""Formulas of elements of lists of arrays, functions and updates: one launch, or a few for very many arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays.dtypes import float64
from ..cuda import runtime
from ..formulas.cuda_code import Functor, over_lists
from ..formulas.expression import element, number
from ..formulas.update import Trace, host_function
from .array_lists import TensorLists, lists_parameter, tensor_lists
from .functors import Declared, declare_unit, functor_parameter, packed
from .instances import C_NAMES, Parameter
from .launcher import Array

FILE = "foreach.cu"
LIST, NUMBER, NONE = "l", "n", "o"  # what the arguments of a function are
Argument = Any  # a list of arrays, a number, which may be a 0-d array of float64 in device memory, or None


class ListFunction(NamedTuple):
    """A function of lists: `formula` gives the result of all arguments in their order, or None if it has none."""

    name: str
    formula: Callable[..., Any]


class Listed(NamedTuple):
    """A functor of foreach.cu, and what computes its members from the numbers of the formula."""

    label: str
    functor: Functor
    values: Callable[..., tuple[Any, ...]]


@functools.cache
def function_of(function: ListFunction, kinds: str) -> Listed | None:
    """The functor of a function with these kinds of arguments; None if there is no kernel for them.

    The first list gets the results; the numbers are a0, a1, ... by the places of the arguments.
    """
    makes = {LIST: element, NUMBER: number, NONE: lambda _: None}
    result = function.formula(*[makes[kind](f"a{k}") for k, kind in enumerate(kinds)]) if LIST in kinds else None
    if result is None:
        return None
    inputs, numbers = [[f"a{k}" for k, own in enumerate(kinds) if own == kind] for kind in (LIST, NUMBER)]
    label = f"foreach_{function.name}"
    functor = over_lists(f"{_capital(label)}_{kinds}", {"out": result}, inputs)
    return Listed(label, functor, host_function(functor.numbers, numbers))


@functools.cache
def update_of(trace: Trace) -> Listed:
    """The functor of an update: the lists are those that it replaces, in their order, and then the others."""
    inputs = sorted(trace.inputs, key=lambda name: name not in trace.outputs)
    functor = over_lists(_capital(f"{trace.label}_step"), trace.outputs, inputs)
    return Listed(f"{trace.name}_step", functor, host_function(functor.numbers, trace.numbers))


def _capital(name: str) -> str:
    return "".join([word.capitalize() for word in name.split("_")])


def declare_foreach(functor: Functor, dtype: np.dtype) -> str:
    """The instance of a functor, which is declared when it is first asked for."""
    name = f"foreach<{functor.name}, {C_NAMES[dtype]}>"
    optional = [Parameter(name, "read", float64, optional=True) for name in ("live", "skip")]
    parameters = (lists_parameter(functor.lists), functor_parameter(functor, dtype), *optional)
    declare_unit(FILE, name, [Declared(functor, name, "foreach", parameters)])
    return name


def over(listed: Listed, lists: TensorLists, numbers: Any, skip: Array | None = None) -> None:
    """Launches a functor with the numbers of its formula by keyword, or with its own as an array in device memory."""
    label, functor, values = listed
    live = None if isinstance(numbers, dict) else numbers
    own = (0.0,) * len(functor.numbers) if live is not None else values(**numbers)
    argument = packed(functor, own, lists.dtype)
    lists.launch(declare_foreach(functor, lists.dtype), argument, live, skip, label=label)


def foreach(function: ListFunction, out: Sequence[Array], *arguments: Argument, lasting: bool = False) -> bool:
    """out[i] = function(...) for all i, where arguments are lists, numbers for all rows, or None.

    `out` may be the first list of arguments. Half types are computed in float32 and rounded once. `lasting` is that of
    `tensor_lists`. Returns False, and does nothing, if that refuses the arrays, or if there is no kernel.
    """
    kinds = kinds_of(arguments)
    listed, lists = function_of(function, kinds), [a for a, kind in zip(arguments, kinds, strict=True) if kind == LIST]
    rows = None if listed is None else tensor_lists([out], lists, lasting)
    if listed is None or rows is None:
        return False
    numbers: Any = {f"a{k}": a for k, (a, kind) in enumerate(zip(arguments, kinds, strict=True)) if kind == NUMBER}
    if any(hasattr(value, "dtype") for value in numbers.values()):
        xp = runtime.cupy()
        numbers = xp.stack([xp.asarray(value, float64) for value in listed.values(**numbers)])
    over(listed, rows, numbers)
    return True


def kinds_of(arguments: Sequence[Argument]) -> str:
    """LIST, NUMBER or NONE for each argument."""
    return "".join([LIST if isinstance(a, (list, tuple)) else NONE if a is None else NUMBER for a in arguments])
