"""fuse: arithmetic of one shape and dtype becomes groups, each of which is one pass over memory.

An op brings its formula (`formula` of its block). The program of the formula is what the op's own code runs, and a
group joins programs instruction by instruction, so no bit changes. What is not arithmetic keeps its order; a group
stands where its first result is read. Memory that is written to is left alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, float64
from ...backend.formulas.expression import Expression, constant, element, number, text
from ...backend.formulas.group import GroupCode
from ...backend.formulas.joined import Joined
from ...backend.formulas.lowering import Operand, Program, lowered, uses_library
from ...backend.formulas.native import switch
from ...core.declare.formula_codes import FEW
from ...core.declare.pointwise import Written
from ..graph import CONSTANT, RESULT, Call, FusedRule, Group, Node, SetGrad, Value

WINDOWS = (256, 64, 16, 4, 1)  # units that are looked back at: fewer where the memory would grow
MOST_OPERANDS = 24
MOST_INSTRUCTIONS = 160
MORE, FEW_BYTES = 1.1, 1 << 16  # the peak of live bytes, over that of the order of the program; bytes that do not count
SMALL = 1 << 15  # elements up to which instructions join though they share nothing
NUMPY_CODE = 1 << 20  # elements from which NumPy code by blocks takes less time than a call for each instruction
UNIFORM = 1 << 20  # bytes of constants that are looked through for one number


def fused(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with groups in place of arithmetic."""
    written = {v.root for node in nodes for v in node.writes}
    parts = Parts(nodes, written)
    least = 0 if switch.is_on() else NUMPY_CODE
    large = [any(v.array.size >= least or not _on_host(v) for v in node.outs) for node in nodes]
    listed = [parts.of(node) if suits else None for node, suits in zip(nodes, large, strict=True)]
    if not any(listed):
        return [*nodes]
    allowed = MORE * max(peak(nodes, returns), FEW_BYTES)
    for window in WINDOWS:
        grouped = _nodes(_in_order(_Grouping(nodes, listed, returns, written, window).units), returns)
        if peak(grouped, returns) <= allowed:
            for node in grouped:
                if isinstance(node, Group):
                    node.code = _code(node, parts)
            return grouped
    return [*nodes]


# ---- instructions as programs --------------------------------------------------------------------------


@dataclass
class Part:
    """An instruction as a program. `operands`: its inputs, values or numbers; `numbers`: of the program, by name."""

    node: Node
    program: Program
    operands: list[Any]
    numbers: dict[str, float]
    outputs: Sequence[Expression]

    @property
    def reads(self) -> list[Value]:
        return [a for a in self.operands if isinstance(a, Value)]

    @property
    def key(self) -> Any:
        """What the instructions of a group have in common."""
        out = self.node.outs[0]
        return out.shape, out.dtype, self.node.region, str(getattr(out.array, "device", "cpu"))

    def lines(self) -> Iterator[str]:
        """What it computes, and the line of the user's code that it came from."""
        names = {element(name): a.name if isinstance(a, Value) else repr(a)
                 for name, a in zip(self.program.inputs, self.operands, strict=True)}  # fmt: skip
        names |= {number(name): repr(value) for name, value in self.numbers.items()}
        for v, output in zip(self.node.outs, self.outputs, strict=True):
            yield f"{v.name} = {text(output, names)}  [{self.node.where}]"


class Parts:
    """Which instructions are arithmetic of arrays of one dtype."""

    def __init__(self, nodes: Sequence[Node], written: set[int]) -> None:
        self.written = written
        self.by_node: dict[Node, Part] = {}
        self.spread = {n.outs[0]: n.reads[0] for n in nodes if _is_spread(n)}  # one number in many places

    def of(self, node: Node) -> Part | None:
        """The instruction as a program; None if it is none."""
        formula, args, attributes = _formula(node)
        if formula is None or not all(map(self._is_result, node.outs)):
            return None
        out = node.outs[0]
        operands = [self._operand(a, out) for a in args]
        alike = all(v.shape == out.shape and v.dtype == out.dtype for v in node.outs)
        if not alike or any(a is None for a in operands) or not any(
            isinstance(a, Value) and a.shape == out.shape for a in operands
        ):  # fmt: skip
            return None
        part = _part(node, formula, operands, attributes)
        if part is not None:
            self.by_node[node] = part
        return part

    def _is_result(self, v: Value) -> bool:
        usual = v.dtype in (FULL_FLOATS if _on_host(v) else FLOATS) and bool(v.array.flags.c_contiguous)
        return v.kind == RESULT and usual and v.root not in self.written

    def _operand(self, a: Any, out: Value) -> Any:
        """An argument as an operand; None if it has no place in a group."""
        if type(a) in (int, float):
            return a if type(a) is float or abs(a) < 2**53 else None
        if not isinstance(a, Value) or a.root in self.written:
            return None
        a = self.spread.get(a, a)
        if type(a.array) is not type(out.array) or a.dtype != out.dtype or a.root in self.written:
            return None
        if a.shape != out.shape and not _broadcasts(a, out):
            return None
        value = _number(a)
        return a if value is None else _Fixed(value)


class _Fixed(float):
    """The number that all elements of a constant are: rounded already, unlike a number of the program."""


def _part(node: Node, formula: Any, operands: list[Any], attributes: dict[str, Any]) -> Part | None:
    """The program of a formula for these operands; None where the op runs other code."""
    out, numbers = node.outs[0], dict[str, float]()
    on_host, double = _on_host(out), out.dtype == float64 or not _on_host(out)
    if isinstance(formula, Written):
        program, numbers, outputs = formula.program(attributes, double)
    else:
        arrays = [isinstance(a, (Value, _Fixed)) for a in operands]
        arguments = [element(f"x{k}") if array else constant(operands[k]) for k, array in enumerate(arrays)]
        result = formula(*arguments, **attributes)
        if result is None:
            return None
        outputs, program = [result], _lowered(result, len(operands), double)
    library = any(i.op == "normal_cdf" for i in program.instructions) or (
        uses_library(outputs) and out.array.size <= FEW
    )
    if (library and on_host) or len(program.inputs) != len(operands):
        return None
    return Part(node, program, operands, numbers, outputs)


def _formula(node: Node) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """The formula of an instruction, its operands and its options."""
    if isinstance(node, Call) and not node.op.saved:
        return node.op.formula, node.args, node.attributes
    formula = getattr(node.rule, "formula", None) if isinstance(node, FusedRule) and all(node.gives) else None
    if formula is None:
        return None, (), {}
    g, _, h, saved, *values = node.given  # type: ignore[attr-defined]
    return formula, (g, h, saved), dict(zip(formula.family.attributes, values, strict=True))


def _on_host(v: Value) -> bool:
    return type(v.array) is np.ndarray


def _broadcasts(a: Value, out: Value) -> bool:
    """Whether a group may read an operand of another shape: one number, or on the CPU rows and columns, too."""
    if a.array.ndim > len(out.shape):
        return False
    pairs = zip(reversed(a.shape), reversed(out.shape), strict=False)
    return a.array.size == 1 or (_on_host(a) and a.array.size > 1 and all(n in (1, m) for n, m in pairs))


def _is_spread(node: Node) -> bool:
    return isinstance(node, Call) and node.op.name == "expand" and node.reads[0].array.size == 1


@functools.lru_cache(4096)
def _lowered(output: Expression, inputs: int, double: bool) -> Program:
    return lowered([output], [f"x{k}" for k in range(inputs)], double)


def _number(v: Value) -> float | None:
    """The number that all elements of a constant are."""
    if v.kind != CONSTANT or not v.array.size or v.array.nbytes > UNIFORM or not _on_host(v):
        return None
    content = np.ascontiguousarray(v.content)
    first = content.reshape(-1)[:1]
    return float(first[0]) if content.tobytes() == first.tobytes() * content.size else None


# ---- which belong together -----------------------------------------------------------------------------


@dataclass(eq=False)
class _Unit:
    """Instructions that run at once: a group, or one that is no arithmetic. `behind`: a bit for each unit before it."""

    number: int
    nodes: list[Node]
    parts: list[Part] = field(default_factory=list)
    key: Any = None
    behind: int = 0
    needs: set[int] = field(default_factory=set)
    reads: set[Value] = field(default_factory=set)
    made: set[Value] = field(default_factory=set)

    def add(self, node: Node, part: Part | None, reads: Sequence[Value]) -> None:
        self.reads.update(reads)
        self.made.update(node.made())
        if part is not None:
            self.parts.append(part)

    def has_room(self, part: Part, readers: dict[Value, set[Any]]) -> bool:
        """Whether it may take the part. `readers`: the instructions that read a value, and None if it is returned."""
        inside = {*self.nodes, part.node}
        outs = [v for v in (*self.made, *part.node.outs) if not readers.get(v, {None}) <= inside]
        operands = len((self.reads | {*part.reads}) - self.made) + len(outs)
        most = MOST_OPERANDS if _on_host(part.node.outs[0]) else kernels.MOST_IN_GROUP
        return operands <= most and len(part.program.instructions) + sum(
            len(p.program.instructions) for p in self.parts
        ) <= MOST_INSTRUCTIONS  # fmt: skip


class _Grouping:
    """Puts each part into the unit of an instruction that it reads, or shares an operand with, if nothing that it needs
    has to run behind that unit."""

    def __init__(
        self, nodes: Sequence[Node], parts: Sequence[Part | None], returns: Sequence[Value], written: set[int],
        window: int,
    ) -> None:  # fmt: skip
        self.readers: dict[Value, set[Any]] = {v: {None} for v in returns}
        for node, part in zip(nodes, parts, strict=True):
            for v in node.reads if part is None else part.reads:
                self.readers.setdefault(v, set()).add(node)
        self.units: list[_Unit] = []
        self.at: dict[Value, _Unit] = {}
        self.window, anchor = window, None
        for node, part in zip(nodes, parts, strict=True):
            reads = node.reads if part is None else part.reads
            needed = {self.at[v] for v in reads if v in self.at}
            fixed = part is None and (node.has_effect or any(v.root in written for v in (*reads, *node.made())))
            if fixed and anchor is not None:
                needed.add(anchor)
            unit = None if part is None else self._joined(part, needed)
            if unit is None:
                unit = _Unit(len(self.units), [], key=None if part is None else part.key)
                self.units.append(unit)
                self._connect(unit, needed)
            unit.nodes.append(node)
            unit.add(node, part, reads)
            self.at.update(dict.fromkeys(node.made(), unit))
            anchor = unit if fixed else anchor

    def _connect(self, unit: _Unit, needed: set[_Unit]) -> None:
        """Notes that a unit runs behind others."""
        others = needed - {unit}
        unit.needs.update(u.number for u in others)
        added = 0
        for u in others:
            added |= u.behind | 1 << u.number
        if added & ~unit.behind:
            unit.behind |= added
            for later in self.units[unit.number + 1 :]:
                if later.behind >> unit.number & 1:
                    later.behind |= unit.behind

    def _joined(self, part: Part, needed: set[_Unit]) -> _Unit | None:
        """The unit that takes the part, or None."""
        before = 0
        for u in needed:
            before |= u.behind
        near = [u for u in self.units[-self.window :] if u.key == part.key and not before >> u.number & 1]
        fits = [u for u in near if u.has_room(part, self.readers) and not any(u.behind >> n.number & 1 == 0 and (
            n.behind >> u.number & 1) for n in needed if n is not u)]  # fmt: skip
        small = part.node.outs[0].array.size <= SMALL
        for wanted in (lambda u: u in needed, lambda u: not u.reads.isdisjoint(part.reads), lambda u: small):
            for unit in reversed(fits):
                if wanted(unit):
                    self._connect(unit, needed)
                    return unit
        return None


def _in_order(units: Sequence[_Unit]) -> list[_Unit]:
    """The units, each behind those that it needs; groups as late as what reads them allows."""
    ordered: dict[int, _Unit] = {}

    def place(unit: _Unit) -> None:
        waiting = [unit]
        while waiting:
            missing = [n for n in sorted(waiting[-1].needs) if n not in ordered]
            if missing:
                waiting += [units[n] for n in reversed(missing)]
            else:
                last = waiting.pop()
                ordered[last.number] = last

    for unit in units:
        if not unit.parts:
            place(unit)
    for unit in units:
        if unit.number not in ordered:
            place(unit)
    return [*ordered.values()]


# ---- groups --------------------------------------------------------------------------------------------


def _nodes(units: Sequence[_Unit], returns: Sequence[Value]) -> list[Node]:
    """The instructions of the units in order, those of a group as one."""
    readers: dict[Value, set[int]] = {v: {-1} for v in returns}
    for unit in units:
        for v in unit.reads:
            readers.setdefault(v, set()).add(unit.number)
    nodes: list[Node] = []
    for unit in units:
        if not unit.parts or (len(unit.nodes) == 1 and (
            len(unit.parts[0].program.instructions) < 2 or not _on_host(unit.nodes[0].outs[0])
        )):  # fmt: skip
            nodes += unit.nodes
            continue
        outs = [v for n in unit.nodes for v in n.outs if readers.get(v, set()) - {unit.number}]
        nodes.append(_group(unit, outs))
    return nodes


def _group(unit: _Unit, outs: list[Value]) -> Group:
    """The group without its code. Its arguments are inputs, the last one of the shape of the results, then numbers."""
    shape, reads = unit.key[0], dict.fromkeys(v for p in unit.parts for v in p.reads if v not in unit.made)
    inputs = sorted([v for v in reads if not _is_number(v, shape)], key=lambda v: v.shape == shape)
    numbers = [v for v in reads if _is_number(v, shape)]
    first = unit.nodes[0]
    return Group(outs, first.phase, first.region, first.where, args=[*inputs, *numbers], parts=unit.nodes)


def _is_number(v: Value, shape: tuple[int, ...]) -> bool:
    return v.array.size == 1 and v.shape != shape


def _code(group: Group, parts: Parts) -> GroupCode | kernels.GroupKernel:
    """Joins the programs of a group."""
    shape, joined, on_host = group.outs[0].shape, Joined(), _on_host(group.outs[0])
    scalars = sum(1 for v in group.args if _is_number(v, shape))
    count = len(group.args) - scalars * on_host  # on the device numbers are inputs, too
    places = {v: Operand("i", k) if k < count else Operand("n", k - count) for k, v in enumerate(group.args)}
    for node in group.parts:
        part = parts.by_node[node]
        operands = [places[a] if isinstance(a, Value) else joined.constant(a) for a in part.operands]
        made = joined.add(part.program, operands, part.program.values(**part.numbers))
        places |= zip(node.outs, made, strict=True)
    program = joined.program(count, len(group.args) - count, [places[v] for v in group.outs])
    group.lines = [line for node in group.parts for line in parts.by_node[node].lines()]
    if not on_host:
        return kernels.GroupKernel(program, scalars)
    name = f"group of {', '.join(dict.fromkeys(node.name for node in group.parts))}"
    return GroupCode(name, program, group.outs[0].dtype, shape)


# ---- memory --------------------------------------------------------------------------------------------


def peak(nodes: Sequence[Node], returns: Sequence[Value]) -> int:
    """The most bytes of results that are alive at a time; arithmetic writes into what dies."""
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for v in (*node.reads, *node.made()):
            last[v.root] = max(last.get(v.root, 0), len(nodes) if isinstance(node, SetGrad) else i)
    last.update(dict.fromkeys([v.root for v in returns], len(nodes)))
    sizes: dict[int, int] = {}
    live = most = 0
    for i, node in enumerate(nodes):
        new = {v.root: v.array.nbytes for v in node.made() if v.kind == RESULT and v.root not in sizes}
        dying = [root for root in {v.root for v in (*node.reads, *node.made())} if last[root] == i]
        in_place = isinstance(node, Group) or _formula(node)[0] is not None
        reused = sum(sizes.get(root, 0) for root in dying) if in_place else 0
        sizes |= new
        live += sum(new.values())
        most = max(most, live - min(reused, sum(new.values())))
        live -= sum(sizes.get(root, 0) for root in dying)
    return most
