"""fuse: arithmetic of one shape and dtype becomes groups, each of which is one pass over memory.

A group joins the programs of its instructions (parts.py) instruction by instruction, so no bit changes. On the CPU
half types are computed in float32 and rounded behind each instruction, so they, float32 and casts are one group. What
is not arithmetic keeps its order; a group stands where its first result is read. What reads memory that is written to
runs behind the write before it in the program, and before the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backend import kernels
from ...backend.formulas.group import GroupCode
from ...backend.formulas.joined import Joined
from ...backend.formulas.lowering import Operand
from ...backend.formulas.native import switch
from ..graph import RESULT, Group, Node, SetGrad, Value
from .layers import taken_apart
from .parts import Part, Parts, formula_of, on_host

WINDOWS = (256, 64, 16, 4, 1)  # units that are looked back at: fewer where the memory would grow
MOST_OPERANDS = 24
MOST_INSTRUCTIONS = 160
MORE, FEW_BYTES = 1.1, 1 << 16  # the peak of live bytes, over that of the order of the program; bytes that do not count
SMALL = 1 << 15  # elements up to which instructions join though they share nothing
NUMPY_CODE = 1 << 20  # elements from which NumPy code by blocks takes less time than a call for each instruction


def fused(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with groups in place of arithmetic."""
    written = {v.root for node in nodes for v in node.writes}
    parts = Parts(nodes, written)
    least = 0 if switch.is_on() else NUMPY_CODE
    large = [any(v.array.size >= least or not on_host(v) for v in node.outs) for node in nodes]
    taken = [taken_apart(node, parts) if suits else [node] for node, suits in zip(nodes, large, strict=True)]
    pieces = parts.conditions.without_unread([p for several in taken for p in several], parts.by_node, returns)
    listed = [parts.by_node.get(piece) for piece in pieces]
    if not any(listed):
        return [*nodes]
    allowed = MORE * max(peak(nodes, returns), FEW_BYTES)
    for window in WINDOWS:
        grouped = _nodes(_in_order(_Grouping(pieces, listed, returns, written, window).units), returns)
        if peak(grouped, returns) <= allowed:
            for node in grouped:
                if isinstance(node, Group):
                    node.code = _code(node, parts)
            return grouped
    return [*nodes]


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
        most = MOST_OPERANDS if on_host(part.node.outs[0]) else kernels.MOST_IN_GROUP
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
        self.writer: dict[int, _Unit] = {}  # by root of memory: the last that has written to it
        self.reading: dict[int, set[_Unit]] = {}  # those with arithmetic that has read it since
        self.window, anchor = window, None
        for node, part in zip(nodes, parts, strict=True):
            reads = node.reads if part is None else part.reads
            needed = {self.at[v] for v in reads if v in self.at}
            touched = {v.root for v in (*reads, *node.made())} & written
            fixed = part is None and (node.has_effect or bool(touched))
            if fixed and anchor is not None:
                needed.add(anchor)
            needed.update(self.writer[root] for root in touched & self.writer.keys())
            needed.update(u for v in node.writes for u in self.reading.pop(v.root, ()))
            unit = None if part is None else self._joined(part, needed)
            if unit is None:
                unit = _Unit(len(self.units), [], key=None if part is None else part.key)
                self.units.append(unit)
                self._connect(unit, needed)
            unit.nodes.append(node)
            unit.add(node, part, reads)
            self.at.update(dict.fromkeys(node.made(), unit))
            self.writer.update((v.root, unit) for v in node.writes)
            for root in touched if part is not None else ():
                self.reading.setdefault(root, set()).add(unit)
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
            for other in self.units:  # also earlier ones, which may have needed a later one since
                if other.behind >> unit.number & 1:
                    other.behind |= unit.behind

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
        if not unit.parts or (len(unit.nodes) == 1 and not unit.parts[0].pays_alone):
            nodes += unit.nodes
            continue
        outs = [v for n in unit.nodes for v in n.outs if readers.get(v, set()) - {unit.number}]
        nodes.append(_group(unit, outs))
    return nodes


def _group(unit: _Unit, outs: list[Value]) -> Group:
    """The group without its code. Its arguments are inputs, then numbers. On the host the last one of the inputs has
    the shape of the results, on the device those that are dense come first."""
    shape, reads = unit.key[0], dict.fromkeys(v for p in unit.parts for v in p.reads if v not in unit.made)
    order = (lambda v: v.shape == shape) if on_host(outs[0]) else (lambda v: _is_strided(v, shape))
    inputs = sorted([v for v in reads if not _is_number(v, shape)], key=order)
    numbers = [v for v in reads if _is_number(v, shape)]
    first = unit.nodes[0]
    return Group(outs, first.phase, first.region, first.where, args=[*inputs, *numbers], parts=unit.nodes)


def _is_strided(v: Value, shape: tuple[int, ...]) -> bool:
    """Whether a kernel reads it by rows and columns."""
    return not _is_number(v, shape) and (v.shape != shape or not v.array.flags.c_contiguous)


def _is_number(v: Value, shape: tuple[int, ...]) -> bool:
    return v.array.size == 1 and v.shape != shape


def _code(group: Group, parts: Parts) -> GroupCode | kernels.GroupKernel:
    """Joins the programs of a group."""
    shape, joined, host = group.outs[0].shape, Joined(), on_host(group.outs[0])
    scalars = sum(1 for v in group.args if _is_number(v, shape))
    count = len(group.args) - scalars * host  # on the device numbers are inputs, too
    places = {v: Operand("i", k) if k < count else Operand("n", k - count) for k, v in enumerate(group.args)}
    for node in group.parts:
        part = parts.by_node[node]
        operands = [places[a] if isinstance(a, Value) else joined.constant(a) for a in part.operands]
        made = joined.add(part.program, operands, part.program.values(**part.numbers))
        places |= zip(node.outs, made, strict=True)
    program = joined.program(count, len(group.args) - count, [places[v] for v in group.outs])
    group.lines = [line for node in group.parts for line in parts.by_node[node].lines()]
    if not host:
        return kernels.GroupKernel(program, sum(_is_strided(v, shape) for v in group.args), scalars, shape)
    name = f"group of {', '.join(dict.fromkeys(node.name for node in group.parts))}"
    return GroupCode(name, program, [v.dtype for v in (*group.args, *group.outs)], shape)


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
        in_place = isinstance(node, Group) or formula_of(node)[0] is not None
        reused = sum(sizes.get(root, 0) for root in dying) if in_place else 0
        sizes |= new
        live += sum(new.values())
        most = max(most, live - min(reused, sum(new.values())))
        live -= sum(sizes.get(root, 0) for root in dying)
    return most
