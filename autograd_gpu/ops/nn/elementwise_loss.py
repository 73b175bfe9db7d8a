"""Losses of elements from formulas.

    @elementwise_loss
    class huber_loss:
        def formula(input, target, *, delta=1.0): ...

Forward reduces what the formula gives for each element. A plain backward on the CPU computes all gradients in one pass;
the rules, for every other, are the derivatives of the formula by functions of F. An optional input that is None is None
in the formula as well. Inputs in `nondiff` have no derivative. `check` gets the inputs, and raises the errors of wrong
shapes and values; `check_numbers` gets the attributes beside `reduction`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import HALF, float32, float64, wide
from ...backend.cpu.half import convert
from ...backend.formulas.expression import Expression, inputs_of, on_host, ordered
from ...backend.formulas.formula import Formula
from ...backend.formulas.lowering import settled
from ...backend.formulas.numpy_code import computed
from ...backend.formulas.numpy_source import defined
from ...core.extend import FLOAT, Several, defop
from .loss_reduction import LOSS_BATCH, LOSS_JVP, finish, share

VALUE = ("",)
MOST = 256  # values of numbers for which code is kept
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
}  # fmt: skip
NAMES = {"select": "where", "and": "logical_and", "or": "logical_or"}  # of functions of F that have other names


class Loss:
    """The formula of a loss, and what runs for the inputs that are there."""

    def __init__(self, name: str, function: Callable[..., Any], nondiff: Sequence[str]) -> None:
        formula = Formula(function, name)
        self.inputs, self.numbers, parameters = formula.inputs, formula.numbers, inspect.signature(function).parameters
        self.optional = [x for x in self.inputs if parameters[x].default is None]
        self.required = [x for x in self.inputs if x not in self.optional]
        self.derived = [x for x in self.inputs if x not in nondiff]
        self.name, self.function, self.family = name, function, functools.cache(self._family)
        partials = {x: self.family(()).expression(x) for x in self.derived}
        reads = {x: [*inputs_of([e]), *self.optional] for x, e in partials.items()}
        self.read = {x: [y for y in self.inputs if y in names] for x, names in reads.items()}

    def _family(self, absent: tuple[str, ...]) -> Several:
        """The formula without these inputs; its kernels are named after the optional ones that are there."""
        name = "_".join([self.name, *[x for x in self.optional if x not in absent]])
        return Several(name, Formula(self.function, name, absent=absent), g_first=True)

    def of(self, arrays: Mapping[str, Any]) -> Several:
        """The formula of the inputs that are not None."""
        return self.family(tuple([x for x in self.optional if arrays[x] is None]))

    def on_cuda(self, xp: Any, arrays: Mapping[str, Any], reduction: str, numbers: tuple[float, ...]) -> Any:
        """What forward returns, of CuPy arrays: the losses by one launch, if the kernel takes so many arrays."""
        family, dtype = self.of(arrays), arrays["input"].dtype
        widened = {x: arrays[x].astype(wide(dtype), copy=False) for x in family.inputs}
        named = dict(zip(self.numbers, numbers, strict=True))
        results = family.launched(VALUE, widened, named)
        if results is None:
            program = family.program(VALUE, family.chosen(named)[0], wide(dtype) == float64)
            results = computed(xp, program, [widened[x] for x in program.inputs], program.values(**named))
        return finish(xp, results[0], reduction, dtype)

    def rule(
        self, F: Any, what: str, g: Any, shape: Any, arrays: Mapping[str, Any], numbers: tuple[float, ...]
    ) -> Any:  # fmt: skip
        """g times the derivative by the input `what`, by functions of F."""
        family, named = self.of(arrays), dict(zip(self.numbers, numbers, strict=True))
        (e,) = family.outputs((what,), family.chosen(named)[0])
        result = _evaluated(F, settled(e, {}), {**arrays, **named, "g": g})
        return result if tuple(result.shape) == shape else F.expand(result, shape)


class Passes(dict[Any, tuple[Any, Any, Callable[..., Any]]]):
    """The code of the value, or of gradients, by dtype, numbers, and which inputs are there.

    Each with what picks the arrays that it reads from g and all inputs. Of half types the value is that in float32.
    """

    def __init__(self, loss: Loss, wanted: tuple[str, ...]) -> None:
        self.loss, self.wanted = loss, wanted

    def __missing__(self, key: Any) -> tuple[Any, Any, Callable[..., Any]]:
        dtype, absent, *numbers = key
        if len(self) >= MOST:
            self.clear()
        loss = self.loss
        family = loss.family(tuple([x for x, missing in zip(loss.optional, absent, strict=True) if missing]))
        widens = self.wanted == VALUE and dtype in HALF
        code, values = family.codes(self.wanted)[(float32 if widens else dtype, *numbers)]
        read = family.read(self.wanted)
        pick = operator.itemgetter(*[("g", *loss.inputs).index(x) for x in read])
        made = self[key] = code, values, _picked(pick, len(read), widens)
        return made


def _picked(pick: Callable[..., Any], count: int, widens: bool) -> Callable[..., Any]:
    """A function of all arrays that returns what is read of them."""
    if widens:
        return lambda arrays: [convert(a, float32) for a in (pick(arrays) if count > 1 else (pick(arrays),))]
    return pick if count > 1 else lambda arrays: (pick(arrays),)


def _evaluated(F: Any, e: Expression, values: Mapping[str, Any]) -> Any:
    """The expression by functions of F."""
    made: dict[Expression, Any] = {}
    for part in ordered([e], _arguments):
        made[part] = on_host(part, dict(values)) if part.uniform else _applied(F, part, made, values)
    return made[e]


def _arguments(e: Expression) -> tuple[Expression, ...]:
    """What is computed before e; minimum(maximum(x, low), high) is one operation."""
    if e.uniform:
        return ()
    if e.op == "minimum" and e.args[1].uniform and e.args[0].op == "maximum" and e.args[0].args[1].uniform:
        return (*e.args[0].args, e.args[1])
    return e.args


def _applied(F: Any, part: Expression, made: Mapping[Expression, Any], values: Mapping[str, Any]) -> Any:
    if not part.args:
        return values[part.value]
    op, args = part.op, [made[a] for a in _arguments(part)]
    if op in OPERATORS:
        return OPERATORS[op](*args)
    if op in ("maximum", "minimum") and part.args[1].uniform:
        return F.clamp(args[0], *([None, args[1]] if op == "minimum" and len(args) == 2 else args[1:]))
    if op == "softplus":
        return F.softplus(args[0], 1.0, 40.0)
    return getattr(F, NAMES.get(op, op))(*args)


def elementwise_loss(block: type) -> Any:
    """Declares the loss, and returns its public function."""
    body = {key: value for key, value in vars(block).items() if key not in ("__dict__", "__weakref__")}
    checks = {name: body.pop(name, None) for name in ("check", "check_numbers")}
    loss = Loss(block.__name__, body.pop("formula"), body.get("nondiff", ()))
    needs = itertools.product((False, True), repeat=len(loss.inputs))
    pulls = {need: Passes(loss, tuple([x for x, wanted in zip(loss.inputs, need, strict=True) if wanted]))
             for need in needs if any(need)}  # fmt: skip
    scope: dict[str, Any] = {
        **checks, "LOSS": loss, "VALUES": Passes(loss, VALUE), "PULLS": pulls, "SHARE": share, "FINISH": finish,
        "SHAPE": np.broadcast_shapes, **{f"default_{name}": default for name, default in loss.numbers.items()},
    }  # fmt: skip
    lines = [*_forward(loss, [name for name, check in checks.items() if check]), *_rules(loss)]
    defined(f"<op {block.__name__}>", "\n".join(lines), scope)
    words = {key: scope[key] for key in scope if key in ("forward", "cuda", "fused") or key.startswith("grad_")}
    words |= {"fused_cuda": None, "types": FLOAT, "jvp": LOSS_JVP, "batch": LOSS_BATCH, "takes_out": False,
              "keeps_layout": True}  # fmt: skip
    public = defop(type(block.__name__, (), {**words, **body}))
    public.loss = loss
    return public


def _forward(loss: Loss, checks: Sequence[str]) -> list[str]:
    """The text of forward and cuda."""
    defaults = "".join([f", {name}=default_{name}" for name in loss.numbers])
    head = ", ".join([f"{x}=None" if x in loss.optional else x for x in loss.inputs])
    checked = {"check": ", ".join(loss.inputs), "check_numbers": ", ".join(loss.numbers)}
    head = f"(xp, {head}, *, reduction='mean'{defaults}):"
    calls = [f"    {c}({checked[c]})" for c in checks]
    return [
        f"def forward{head}", *calls, f"    code, values, pick = VALUES[{_key('input.dtype', loss)}]",
        f"    return FINISH(xp, code(pick((None, {', '.join(loss.inputs)})), values)[0], reduction, input.dtype)",
        f"def cuda{head}", *calls,
        f"    return LOSS.on_cuda(xp, {_mapping(loss.inputs)}, reduction, {_tuple(loss.numbers)})",
    ]  # fmt: skip


def _rules(loss: Loss) -> list[str]:
    """The text of the rules, which say by their parameters what is saved: of what a rule does not read the shape."""
    lines, numbers = [], "".join([f", {name}" for name in loss.numbers])
    kept = [x for x in loss.required if all(x in read for read in loss.read.values())]
    shapes = [f"{x}.shape" if x in kept else f"{x}_shape" for x in loss.required]
    saved = [f"{x}_shape" for x in loss.required if x not in kept]
    same = " == ".join(shapes)
    for x, read in loss.read.items():
        lines += [
            f"def grad_{x}(F, g, {', '.join([*read, *saved])}, reduction{numbers}):",
            f"    shape = {shapes[0]} if {same} else SHAPE({', '.join(shapes)})",
            "    g = SHARE(g, shape, reduction)",
            f"    return LOSS.rule(F, {x!r}, g, shape, {_mapping(read)}, {_tuple(loss.numbers)})",
        ]  # fmt: skip
    read = [x for x in loss.inputs if any(x in names for names in loss.read.values())]
    arrays = ", ".join([x if x in read else "None" for x in loss.inputs])
    return [
        *lines, f"def fused(F, g, need, {', '.join([*read, *saved])}, reduction{numbers}):",
        f"    if not {same}:", "        return None",
        f"    code, values, pick = PULLS[need][{_key('g.dtype', loss)}]",
        f"    results = iter(code(pick((SHARE(g, {shapes[0]}, reduction), {arrays})), values))",
        "    return [next(results) if needed else None for needed in need]",
    ]  # fmt: skip


def _key(dtype: str, loss: Loss) -> str:
    absent = _tuple([f"{x} is None" for x in loss.optional])
    return ", ".join([dtype, absent, *loss.numbers])


def _mapping(names: Sequence[str]) -> str:
    return f"{{{', '.join([f'{n!r}: {n}' for n in names])}}}"


def _tuple(names: Iterable[str]) -> str:
    return f"({''.join([f'{n}, ' for n in names])})"
