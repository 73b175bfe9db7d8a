"""Lowering: expressions become a Program, a flat list of instructions, from which each code generator writes.

The Program is the interface between formulas and generators of code. It holds no Python function and no memory address,
and `Program.text` depends on nothing but the formula, so it may key caches that outlive the process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .derivative import in_order, negated
from .expression import (
    CONDITIONS,
    CONSTANT,
    INPUT,
    STATED,
    Expression,
    absolute,
    exp,
    log1p,
    make,
    maximum,
    on_host,
    ordered,
    rebuilt,
    select,
    text,
)

OPERATIONS = frozenset((
    "add", "sub", "mul", "div", "neg", "abs", "sign", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh",
    "normal_cdf", "minimum", "maximum", "pow", "lt", "le", "gt", "ge", "eq", "or", "and", "select",
))  # fmt: skip
# What groups alone do: what is computed in float32, rounded to a half type; NumPy's own function of a half type.
ROUNDINGS = frozenset(("float16", "bfloat16"))
HALF_FUNCTIONS = {
    f"{function}.{half}": (function, half) for half in sorted(ROUNDINGS)
    for function in ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh")
}  # fmt: skip


class Operand(NamedTuple):
    """An argument of an instruction, or an output.

    `kind` is "i" for an input, "n" for a number, "c" for a constant and "t" for the result of an instruction; `place`
    is its index in Program.inputs, numbers, constants or instructions.
    """

    kind: str
    place: int

    def __str__(self) -> str:
        return f"{self.kind}{self.place}"


class Instruction(NamedTuple):
    """One of OPERATIONS, ROUNDINGS or HALF_FUNCTIONS.

    Those in CONDITIONS, and the first argument of select, "and" and "or", are bools.
    """

    op: str
    args: tuple[Operand, ...]

    @property
    def is_condition(self) -> bool:
        return self.op in CONDITIONS


@dataclass(frozen=True)
class Program:
    """Computes outputs of an element from inputs, arrays of one dtype, and numbers, the same for all elements.

    Instructions are in order: their arguments stand before them. Each is one operation of IEEE arithmetic in the dtype
    of the inputs, rounded by itself (no contraction, no reassociation), or one of NumPy's functions. `minimum` and
    `maximum` pass NaN, `sign(NaN)` is NaN, comparisons with NaN do not hold, and `select` has computed both sides.
    `values` computes the numbers in double; they and the constants are rounded to the dtype.

    With double=False `normal_cdf` is a polynomial, accurate in float32; with double=True it is an operation. With
    library=True `normal_cdf` and `sigmoid` are operations, for NumPy code of few elements alone.
    """

    inputs: tuple[str, ...]
    numbers: tuple[Expression, ...]
    constants: tuple[float, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[Operand, ...]

    @cached_property
    def text(self) -> str:
        """The program, a line per instruction; equal for equal programs in every process."""
        lines = [f"i{k} = input {name}" for k, name in enumerate(self.inputs)]
        lines += [f"n{k} = number {text(number)}" for k, number in enumerate(self.numbers)]
        lines += [f"c{k} = constant {float(value).hex()}" for k, value in enumerate(self.constants)]
        for k, instruction in enumerate(self.instructions):
            lines.append(f"t{k} = {instruction.op} {' '.join(map(str, instruction.args))}")
        return "\n".join([*lines, f"return {' '.join(map(str, self.outputs))}"])

    @property
    def operands(self) -> list[Operand]:
        """The inputs, numbers and constants."""
        kinds = {"i": self.inputs, "n": self.numbers, "c": self.constants}
        return [Operand(kind, place) for kind, listed in kinds.items() for place in range(len(listed))]

    def values(self, **numbers: float) -> tuple[float, ...]:
        """The values of the numbers from the formula's arguments by keyword."""
        return tuple([float(on_host(number, numbers)) for number in self.numbers])

    @cached_property
    def last_uses(self) -> dict[Operand, int]:
        """The index of the last instruction that reads an operand; len(instructions) for an output."""
        uses = {a: k for k, instruction in enumerate(self.instructions) for a in instruction.args}
        return {**uses, **dict.fromkeys(self.outputs, len(self.instructions))}


def lowered(
    outputs: Sequence[Expression], inputs: Sequence[str], double: bool = False, library: bool = False
) -> Program:
    """The program that computes the outputs; `inputs` lists all parameters that are arrays, in their order."""
    results = _in_operations(outputs, double, library)
    everything = ordered(results, _arguments)
    numbers = [e for e in everything if _is_number(e)]
    constants = [e for e in everything if e.op == CONSTANT]
    computed = [e for e in everything if _arguments(e)]
    places = {e: Operand("i", inputs.index(e.value)) for e in everything if e.op == INPUT}
    for kind, listed in (("n", numbers), ("c", constants), ("t", computed)):
        places |= {e: Operand(kind, k) for k, e in enumerate(listed)}
    return Program(
        inputs=tuple(inputs),
        numbers=tuple(numbers),
        constants=tuple([e.value for e in constants]),
        instructions=tuple([Instruction(e.op, tuple([places[a] for a in e.args])) for e in computed]),
        outputs=tuple([places[e] for e in results]),
    )


def _is_number(e: Expression) -> bool:
    """Whether the host computes e: the largest subexpressions of numbers alone.

    Conditions and choices stay instructions: a number may be in the memory of a device.
    """
    return e.uniform and e.op not in (CONSTANT, "select") and not e.is_condition


def _arguments(e: Expression) -> tuple[Expression, ...]:
    return () if _is_number(e) else e.args


# ---- primitives in terms of operations -----------------------------------------------------------------

# A minimax fit: exp(z * z) * erfc(z) as a polynomial in t = 1 / (1 + NEAR * z), with an error of 3e-7 for all z >= 0.
# TAIL has half the coefficients, from that of t on. It takes a tenth of the time of SciPy's functions.
NEAR = 0.425
TAIL = (
    0.11983629542126604, 0.12097006133733715, 0.10002964812344848, 0.1286564865815722, -0.053832011199918505,
    0.20634120634624464, -0.15814096026093080, 0.036139301560356885,
)  # fmt: skip


def _in_operations(outputs: Sequence[Expression], double: bool, library: bool) -> list[Expression]:
    """The outputs in terms of OPERATIONS; subexpressions of numbers alone stay as they are."""
    plain = [written_out(e) for e in outputs]
    everything = ordered(plain)
    logits = sorted([e.args[0] for e in everything if e.op == "sigmoid"], key=in_order)
    lowering = _Lowering(everything, logits, plain, double or library, library)
    for e in ordered([*logits, *plain]):  # a mirrored sigmoid reads its partner's logit
        lowering.made[e] = e if e.uniform else lowering.operation(e)
    return [lowering.made[e] for e in plain]


def uses_library(outputs: Sequence[Expression]) -> bool:
    """Whether the program with library=True is another one."""
    return any(e.op in ("sigmoid", "normal_cdf") and not e.uniform for e in ordered([*map(written_out, outputs)]))


def written_out(e: Expression) -> Expression:
    """e with stated functions written out."""
    made: dict[Expression, Expression] = {}
    for part in ordered([e]):
        args = [made[a] for a in part.args]
        made[part] = written_out(part.value.inlined(*args)) if part.op == STATED else rebuilt(part, args)
    return made[e]


def choices(outputs: Sequence[Expression]) -> list[Expression]:
    """The conditions of numbers alone, by which these choose; stated functions are written out."""
    everything = ordered([*map(written_out, outputs)])
    return list(dict.fromkeys([e.args[0] for e in everything if e.op == "select" and e.args[0].uniform]))


def settled(e: Expression, outcomes: Mapping[str, bool]) -> Expression:
    """e, written out, with one side of the choices by conditions of these texts."""
    made, whole = dict[Expression, Expression](), written_out(e)
    for part in ordered([whole]):
        outcome = outcomes.get(str(part.args[0])) if part.op == "select" else None
        made[part] = rebuilt(part, [made[a] for a in part.args]) if outcome is None else made[part.args[2 - outcome]]
    return made[whole]


def _mirrored(logits: Sequence[Expression]) -> dict[Expression, Expression]:
    """-x -> x, where the sigmoids of both are computed: they share one exponential."""
    pairs: dict[Expression, Expression] = {}
    for x in logits:
        if x not in pairs and negated(x) in logits:
            pairs[negated(x)] = x
    return pairs


class _Lowering:
    """Expressions and what they became so far."""

    def __init__(
        self, everything: Sequence[Expression], logits: Sequence[Expression], outputs: Sequence[Expression],
        double: bool, library: bool,
    ) -> None:  # fmt: skip
        self.double, self.library, self.mirrored = double, library, _mirrored(logits)
        self.made: dict[Expression, Expression] = {}
        self.uses = Counter([*outputs, *[a for e in everything for a in e.args]])

    def operation(self, e: Expression) -> Expression:
        """The expression e in terms of operations, after its arguments."""
        args = [self.made[a] for a in e.args]
        if e.op == "sigmoid" and not self.library:
            return 1 / self._one_plus_exp(e)
        if e.op == "mul" and not self.library:
            for a, b in (e.args, e.args[::-1]):
                if b.op == "sigmoid" and not b.uniform and self.uses[b] == 1:  # one rounding less, and one pass
                    return self.made[a] / self._one_plus_exp(b)
        if e.op == "softplus":
            size = args[0].args[0] if args[0].op == "neg" else args[0]
            return maximum(args[0], 0) + log1p(exp(-absolute(size)))
        if e.op == "root":
            return make("sqrt", *args)
        if e.op == "normal_cdf" and not self.double:
            return _normal_cdf(args[0])
        if e.op == "pow" and e.args[1].op == CONSTANT and e.args[1].value in (2, 3):
            return args[0] * args[0] if e.args[1].value == 2 else args[0] * args[0] * args[0]
        return rebuilt(e, args)

    def _one_plus_exp(self, e: Expression) -> Expression:
        """1 / e for e = sigmoid(x)."""
        (x,) = e.args
        if x in self.mirrored:
            return 1 / exp(_opposite(self.made[self.mirrored[x]])) + 1
        return exp(_opposite(self.made[x])) + 1


def _opposite(e: Expression) -> Expression:
    return e.args[0] if e.op == "neg" else -e


def _normal_cdf(x: Expression) -> Expression:
    t = 1 / (absolute(x) * (NEAR * math.sqrt(0.5)) + 1)
    tail = t * TAIL[-1]
    for coefficient in TAIL[-2::-1]:
        tail = (tail + coefficient) * t
    tail = tail * exp(x * x * -0.5)
    return absolute(select(x > 0, 1, 0) - tail)  # 1 - tail or tail: fewer passes than a choice between the two
