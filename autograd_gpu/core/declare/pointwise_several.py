"""Ops from formulas of several elements.

    @pointwise
    class addcmul:
        \"\"\"x + value * a * b, broadcasting.\"\"\"
        def formula(x, a, b, *, value=1): return x + a * b * value

The rules are the formula's derivatives, written with F's operators: `g * (b * value)`. So a call saves what these read,
and derivatives of higher order, batches and lists of tensors (ops/foreach/) follow from the ops in them. A plain
backward computes all gradients of many elements in one pass. Python numbers among the elements are numbers of the code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS
from ...backend.formulas.cuda_code import Functor, elementwise
from ...backend.formulas.derivative import times
from ...backend.formulas.expression import INFIX, Expression, element, inputs_of, on_host, ordered, text
from ...backend.formulas.expression import ZERO as NOTHING
from ...backend.formulas.formula import Formula, Options
from ...backend.formulas.lowering import Program, choices, lowered, settled
from ...backend.formulas.native.switch import SETTING, is_installed
from ...backend.formulas.numpy_code import FEW
from ...backend.formulas.numpy_source import defined
from ...errors import OpDeclarationError
from .formula_codes import Codes
from .op import ZERO

VALUE = ""  # what the op computes, beside the names of inputs, by which it is derived
Wanted = tuple[str, ...]
MOST_READ, MOST_WRITTEN = 3, 2  # by elementwise.cu


class Several:
    """A formula of several elements, and its code; `fixed` elements are numbers of a call.

    `g_first`: g has one element, as in a loss, and comes first among the arrays.
    """

    def __init__(
        self, name: str, formula: Formula, integers: Callable[..., Any] | None = None, fixed: tuple[str, ...] = (),
        g_first: bool = False,
    ) -> None:  # fmt: skip
        if formula.options or formula.computed:
            raise OpDeclarationError(f"op {name}: a formula of several elements has no options")
        self.name, self.of_integers, self.fixed = name, integers, fixed
        self.formula, self.g_first = Formula(formula.function, name, fixed, formula.absent), g_first
        self.inputs = tuple([n for n in formula.inputs if n not in fixed])
        self.attributes = {**dict.fromkeys(fixed, inspect.Parameter.empty), **formula.numbers}
        self.program, self.codes = functools.cache(self._program), functools.cache(self._codes)
        self.functor, self.read = functools.cache(self._functor), functools.cache(self._read)
        self.expression = functools.cache(self._expression)
        self.with_numbers = functools.cache(lambda names: Several(name, formula, integers, names))

    def chosen(self, attributes: Mapping[str, Any]) -> tuple[Options, dict[str, float]]:
        """How the conditions turn out that are of numbers alone, and the numbers."""
        numbers = {name: attributes[name] for name in self.attributes}
        return tuple([(str(c), on_host(c, numbers)) for c in self.conditions]), numbers

    @functools.cached_property
    def conditions(self) -> list[Expression]:
        """The conditions of numbers alone: a choice by one is made before the code is written."""
        return choices([self.expression(what) for what in (VALUE, *self.inputs)])

    def _expression(self, what: str, ones: tuple[str, ...] = ()) -> Expression:
        """The formula, or g times its derivative by an input."""
        derived = self.formula.derived(tuple([int(name == what) for name in self.formula.inputs]), (), ones)
        return times(element("g"), derived) if what else derived

    def outputs(self, wanted: Wanted, options: Options = (), ones: tuple[str, ...] = ()) -> list[Expression]:
        """The value, or gradients by inputs, where choices by conditions of numbers are made."""
        outputs = [self.expression(what, ones if not options else ()) for what in wanted]
        return [settled(e, dict(options)) for e in outputs] if options else outputs

    def _read(self, wanted: Wanted) -> tuple[str, ...]:
        """The names of the arrays that these are computed from; the last one has the shape of the result."""
        names, own = inputs_of(self.outputs(wanted)), [*reversed(self.inputs)]
        ordered = ["g", *own] if self.g_first else [*own, "g"]
        return tuple([n for n in ordered if n in names or (n in self.inputs and not any(wanted))])

    def _program(
        self, wanted: Wanted, options: Options, double: bool, ones: tuple[str, ...] = (), library: bool = False
    ) -> Program:
        return lowered(self.outputs(wanted, options, ones), self.read(wanted), double, library)

    def _codes(self, wanted: Any) -> Codes:
        return Codes(self, " and ".join([f"gradient by {w}" if w else self.name for w in wanted]), wanted)

    def _functor(self, wanted: Wanted, options: Options = ()) -> Functor:
        sides = [str(holds) for _, holds in options]
        words = [self.name, *["grad"][: any(wanted)], *filter(None, wanted), *self.fixed, *sides]
        name = "".join([word.capitalize() for word in "_".join(words).split("_")])
        return elementwise(name, self.outputs(wanted, options), self.read(wanted))

    def integers(self, xp: Any, *arrays: Any, **attributes: Any) -> Any:
        """The value of arrays that are no floats, in the order of `read`."""
        return self._of_integers(xp, arrays[::-1], attributes)

    def _split(self, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> tuple[Several, dict[str, Any]]:
        """The formula with these elements as numbers, and all its numbers."""
        numbers = {name: a for name, a in arrays.items() if not hasattr(a, "dtype")}
        family: Several = self.with_numbers(tuple(numbers)) if numbers else self
        return family, {**numbers, **attributes}

    def computed(self, wanted: Wanted, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
        """What is wanted, of NumPy arrays and numbers."""
        family, numbers = self._split(arrays, attributes)
        listed = [arrays[name] for name in family.read(wanted)]
        if any(a.dtype is not listed[-1].dtype for a in listed):
            dtype = np.result_type(*listed)
            listed = [a.astype(dtype, copy=False) for a in listed]
        if listed[-1].dtype not in FLOATS:
            return [self._of_integers(np, arrays.values(), attributes)]
        code, values = family.codes(wanted)[(listed[-1].dtype, *numbers.values())]
        return code(listed, values)

    def launched(self, wanted: Wanted, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """What is wanted, of CuPy arrays and numbers, in one launch; None if the kernel has too few operands."""
        family, numbers = self._split(arrays, attributes)
        listed = [arrays[name] for name in family.read(wanted)]
        if listed[-1].dtype not in FLOATS:
            return [self._of_integers(backend.namespace(listed[-1]), arrays.values(), attributes)]
        if len(listed) > MOST_READ or len(wanted) > MOST_WRITTEN:
            return None
        return kernels.elementwise(family.applied(wanted, numbers), *kernels.alike(*listed))

    def applied(self, wanted: Wanted, numbers: Mapping[str, Any]) -> kernels.Applied:
        """The functor of what is wanted, with its numbers."""
        functor = self.functor(wanted, self.chosen(numbers)[0])
        return kernels.Applied(self.name, functor, functor.values(**numbers), (functor,))

    def _of_integers(self, xp: Any, arrays: Iterable[Any], attributes: Mapping[str, Any]) -> Any:
        if self.of_integers is None:
            raise TypeError(f"{self.name} is not implemented for integers; convert them with .float()")
        return self.of_integers(xp, *arrays, **attributes)

    def passed(self, g: Any, need: Sequence[bool], arrays: Mapping[str, Any], attributes: Any) -> Any:
        """The needed gradients of many elements in one pass of native code; None if the rules have to run."""
        if g.size <= FEW or not (SETTING.on and is_installed()):
            return None
        return self._gradients(self.computed, g, need, arrays, attributes)

    def passed_on_cuda(self, g: Any, need: Sequence[bool], arrays: Mapping[str, Any], attributes: Any) -> Any:
        """The needed gradients in one launch; None if the rules have to run."""
        return self._gradients(self.launched, g, need, arrays, attributes)

    def _gradients(
        self, run: Callable[..., Any], g: Any, need: Sequence[bool], arrays: Mapping[str, Any], attributes: Any
    ) -> Any:
        rules = {name: self.expression(name) for name, needed in zip(self.inputs, need, strict=True) if needed}
        wanted = tuple([name for name, rule in rules.items() if rule.args])  # others are g
        if len(wanted) < 2:
            return None
        present = {name: a for name, a in arrays.items() if a is not None}
        results = run(wanted, {**present, "g": g}, attributes)
        if results is None:
            return None
        made = {**dict.fromkeys(rules, g), **dict(zip(wanted, results, strict=True))}
        return tuple([made.get(name) for name in self.inputs])


def words_of(family: Several, scalars: Sequence[str] = ()) -> dict[str, Any]:
    """Forward and rules of the op, generated: rules say by their parameters what is saved.

    `scalars` are often numbers, for which forward has a short way.
    """
    scope: dict[str, Any] = {"FAMILY": family, "RESULT": family.codes((VALUE,)), "ndarray": np.ndarray, "FEW": FEW,
                             "FULL_FLOATS": FULL_FLOATS, "__name__": __name__}  # fmt: skip
    scope |= {f"default_{name}": default for name, default in family.attributes.items()}
    scope |= {f"RESULT_{name}": family.with_numbers((name,)).codes((VALUE,)) for name in scalars}
    defined(f"<op {family.name}>", _source(family, scalars), scope)
    zeros = {f"grad_{name}": ZERO for name in family.inputs if family.expression(name) is NOTHING}
    scope["formula"] = family.formula.function  # for compiled calls
    words = ("forward", "cuda", "formula", "fused", "fused_cuda")
    return {**{k: v for k, v in scope.items() if k in words or k.startswith("grad_")}, **zeros}


def _source(family: Several, scalars: Sequence[str]) -> str:
    names, attributes = family.inputs, [*family.attributes]
    keywords = f", *{_listed([f'{a}=default_{a}' for a in attributes])}" if attributes else ""
    listed, arrays, numbers = _listed(attributes), _mapping(names), _mapping(attributes)
    head = f"xp, {', '.join(names)}{keywords}"
    lines = [f"def forward({head}):", *_few(family), *_branch("RESULT", names, attributes)]
    for scalar in scalars:
        rest = [n for n in names if n != scalar]
        lines += _branch(f"RESULT_{scalar}", rest, [scalar, *attributes], f"type({scalar}) in (float, int) and ")
    lines += [
        f"    return FAMILY.computed(('',), {arrays}, {numbers})[0]",
        f"def cuda({head}): return FAMILY.launched(('',), {arrays}, {numbers})[0]",
    ]
    read = set[str]()
    for name in names:
        used = [n for n in names if n in inputs_of([family.expression(name)])]
        read |= {*used}
        lines.append(f"def grad_{name}(F, g{_listed(used)}{listed}): return {_written(family, name)}")
    saved = [n for n in names if n in read]
    for word, run in (("fused", "passed"), ("fused_cuda", "passed_on_cuda")):
        head = f"F, g, need{_listed(saved)}{listed}"
        lines.append(f"def {word}({head}): return FAMILY.{run}(g, need, {_mapping(saved)}, {numbers})")
    return "\n".join(lines)


def _few(family: Several) -> list[str]:
    """Computes few floats with Python's operators, if the formula is arithmetic: a microsecond less than by code."""
    x = family.inputs[0]
    if not _is_arithmetic(family.expression(VALUE)):
        return []
    kinds, dtypes = _alike(family.inputs)
    return [
        f"    if {kinds} is ndarray and {dtypes} and {x}.size <= FEW and {x}.dtype in FULL_FLOATS:",
        f"        return {_written(family, VALUE)}",
    ]


def _alike(names: Sequence[str]) -> list[str]:
    """The types of arrays, and their dtypes, as compared ones."""
    return [" is ".join([form.format(n) for n in names]) for form in ("type({})", "{}.dtype")]


def _branch(codes: str, names: Sequence[str], numbers: Sequence[str], condition: str = "") -> list[str]:
    """Runs the code for arrays of one dtype."""
    kinds, dtypes = _alike(names)
    return [
        f"    if {condition}{kinds} is ndarray and {dtypes}:",
        f"        code, values = {codes}[{names[0]}.dtype{_listed(numbers)}]",
        f"        return code(({', '.join(names[::-1])}), values)[0]",
    ]


def _listed(names: Sequence[str]) -> str:
    return "".join([f", {name}" for name in names])


def _mapping(names: Sequence[str]) -> str:
    return f"{{{', '.join([f'{n!r}: {n}' for n in names])}}}"


def _is_arithmetic(e: Expression) -> bool:
    return {part.op for part in ordered([e]) if part.args} <= {*INFIX, "neg"}


def _written(family: Several, name: str) -> str:
    """The value, or the rule of an input, as Python; without the factors that are numbers of the value 1."""
    rule = family.expression(name)
    if not _is_arithmetic(rule):
        raise OpDeclarationError(f"op {family.name}: the derivative by {name} is {text(rule)}; only arithmetic makes "
                                 "rules")
    ones = tuple(family.attributes)
    short = family.expression(name, ones)
    if not ones or short is rule:
        return text(rule)
    return f"{text(short)} if {' == '.join([*ones, '1'])} else {text(rule)}"
