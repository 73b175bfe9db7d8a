"""Instructions as programs: what groups are made of.

An op brings its formula (`formula` of its block). The program of the formula is what the op's own code runs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, HALF, float32, float64, wide
from ...backend.formulas.expression import Expression, constant, element, number, text
from ...backend.formulas.lowering import Program, lowered, uses_library
from ...core.declare.formula_codes import FEW
from ...core.declare.pointwise import Written
from ..graph import CONSTANT, RESULT, Call, FusedRule, Node, Value
from . import half_parts
from .conditions import Conditions

UNIFORM = 1 << 20  # bytes of constants that are looked through for one number


@dataclass
class Part:
    """An instruction as a program. `operands`: its inputs, values or numbers; `numbers`: of the program, by name."""

    node: Node
    program: Program
    operands: list[Any]
    numbers: dict[str, float]
    outputs: Sequence[Expression]
    chooses: bool = False  # whether it computes a condition, which another instruction has made

    @property
    def reads(self) -> list[Value]:
        return [a for a in self.operands if isinstance(a, Value)]

    @property
    def rounding(self) -> str | None:
        """The half type to which results are rounded before anything else reads them, or None."""
        out = self.node.outs[0]
        return out.dtype.name if on_host(out) and out.dtype in HALF else None

    @property
    def pays_alone(self) -> bool:
        """Whether it is a group by itself: NumPy converts half types one by one, and takes a pass per instruction."""
        values = [*self.reads, *self.node.outs]
        long = len(self.program.instructions) > 1 or any(v.dtype in HALF for v in values)
        return self.chooses or (long and on_host(values[-1]))

    @property
    def key(self) -> Any:
        """What the instructions of a group have in common."""
        out = self.node.outs[0]
        dtype = wide(out.dtype) if on_host(out) else out.dtype
        return out.shape, dtype, self.node.region, str(getattr(out.array, "device", "cpu"))

    def lines(self) -> Iterator[str]:
        """What it computes, and the line of the user's code that it came from."""
        names = {element(name): a.name if isinstance(a, Value) else repr(a)
                 for name, a in zip(self.program.inputs, self.operands, strict=True)}  # fmt: skip
        names |= {number(name): repr(value) for name, value in self.numbers.items()}
        for v, output in zip(self.node.outs, self.outputs, strict=True):
            computed = text(output, names)
            rounded = computed if self.rounding is None else f"{self.rounding}({computed})"
            yield f"{v.name} = {rounded}  [{self.node.where}]"


class Parts:
    """Which instructions are arithmetic of arrays of one dtype, or casts."""

    def __init__(self, nodes: Sequence[Node], written: set[int]) -> None:
        self.written, self.conditions = written, Conditions(nodes, written)
        self.by_node: dict[Node, Part] = {}
        self.spread = {n.outs[0]: n.reads[0] for n in nodes if _is_spread(n)}  # one number in many places

    def of(self, node: Node) -> Part | None:
        """The instruction as a program; None if it is none."""
        choice = self.conditions.choice(node)
        formula, args, attributes = choice or formula_of(node)
        if formula is None or not all(map(self._is_result, node.outs)):
            return None
        out = node.outs[0]
        casts = isinstance(node, Call) and node.op.name == "cast"
        if casts and not (isinstance(args[0], Value) and self._is_cast(args[0], out)):
            return None
        operands = [self._operand(a, out, casts) for a in args]
        alike = all(v.shape == out.shape and v.dtype == out.dtype for v in node.outs)
        if not alike or any(a is None for a in operands) or not any(
            isinstance(a, Value) and a.shape == out.shape for a in operands
        ):  # fmt: skip
            return None
        part = _part(node, formula, operands, attributes)
        if part is not None and part.rounding is not None:
            part = half_parts.rounded(part, tries=choice is None and isinstance(node, Call))
        if part is not None:
            part.chooses = choice is not None
            self.by_node[node] = part
        return part

    def _is_result(self, v: Value) -> bool:
        usual = v.dtype in FULL_FLOATS or (v.dtype in FLOATS and (not on_host(v) or half_parts.are_native(v.dtype)))
        return v.kind == RESULT and usual and bool(v.array.flags.c_contiguous) and v.root not in self.written

    def _is_cast(self, a: Value, out: Value) -> bool:
        """Whether a group may convert a to the dtype of `out`: both are computed in float32."""
        halves = {v.dtype for v in (a, out)} & HALF
        alike = a.dtype in FLOATS and wide(a.dtype) == wide(out.dtype) == float32
        return on_host(a) and on_host(out) and bool(halves) and alike and all(map(half_parts.are_native, halves))

    def _operand(self, a: Any, out: Value, casts: bool) -> Any:
        """An argument as an operand; None if it has no place in a group."""
        if type(a) in (int, float):
            return a if type(a) is float or abs(a) < 2**53 else None
        if not isinstance(a, Value):
            return None
        a = self.spread.get(a, a)
        if type(a.array) is not type(out.array) or (a.dtype != out.dtype and not casts):
            return None
        if a.shape != out.shape and not _broadcasts(a, out):
            return None
        value = None if a.root in self.written else _number(a)
        return a if value is None else Fixed(value)


class Fixed(float):
    """The number that all elements of a constant are: rounded already, unlike a number of the program."""


def _part(node: Node, formula: Any, operands: list[Any], attributes: dict[str, Any]) -> Part | None:
    """The program of a formula for these operands; None where the op runs other code."""
    out, numbers = node.outs[0], dict[str, float]()
    host = on_host(out)
    double = out.dtype == float64 or not host
    if isinstance(formula, Written):
        program, numbers, outputs = formula.program(attributes, double)
    else:
        arrays = [isinstance(a, (Value, Fixed)) for a in operands]
        arguments = [element(f"x{k}") if array else constant(operands[k]) for k, array in enumerate(arrays)]
        result = formula(*arguments, **attributes)
        if result is None:
            return None
        outputs, program = [result], _lowered(result, len(operands), double)
    library = any(i.op == "normal_cdf" for i in program.instructions) or (
        uses_library(outputs) and out.array.size <= FEW
    )
    if (library and host) or len(program.inputs) != len(operands):
        return None
    return Part(node, program, operands, numbers, outputs)


def formula_of(node: Node) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """The formula of an instruction, its operands and its options."""
    if isinstance(node, Call) and not node.op.saved:
        return node.op.formula, node.args, node.attributes
    formula = getattr(node.rule, "formula", None) if isinstance(node, FusedRule) and all(node.gives) else None
    if formula is None:
        return None, (), {}
    g, _, h, saved, *values = node.given  # type: ignore[attr-defined]
    return formula, (g, h, saved), dict(zip(formula.family.attributes, values, strict=True))


def on_host(v: Value) -> bool:
    return type(v.array) is np.ndarray


def _broadcasts(a: Value, out: Value) -> bool:
    """Whether a group may read an operand of another shape: one number, rows and columns."""
    pairs = zip(reversed(a.shape), reversed(out.shape), strict=False)
    return a.array.ndim <= len(out.shape) and a.array.size > 0 and all(n in (1, m) for n, m in pairs)


def _is_spread(node: Node) -> bool:
    return isinstance(node, Call) and node.op.name == "expand" and node.reads[0].array.size == 1


@functools.lru_cache(4096)
def _lowered(output: Expression, inputs: int, double: bool) -> Program:
    return lowered([output], [f"x{k}" for k in range(inputs)], double)


def _number(v: Value) -> float | None:
    """The number that all elements of a constant are."""
    if v.kind != CONSTANT or not v.array.size or v.array.nbytes > UNIFORM or not on_host(v):
        return None
    content = np.ascontiguousarray(v.content)
    first = content.reshape(-1)[:1]
    return float(first[0]) if content.tobytes() == first.tobytes() * content.size else None
