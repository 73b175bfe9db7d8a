"""plan: where the results of a program lie: in memory of the program, over an operand that dies, or in new memory.

Memory of the program is one block, in which results that are not alive at the same time share bytes. Results, `.grad`s
and what a backward reads are always new. The block stays between calls, so it is made only as large as keeps the peak
of a run at most an eighth above that of the instructions in order, each result in memory of its own until its last use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend.cpu.pool import SMALLEST as LARGE
from ..emitters import UFUNCS
from ..graph import RESULT, Call, FusedRule, Node, Routine, SetGrad, Value

GRAIN = 64  # bytes, to which places are rounded up
LITTLE = 1 << 16  # bytes of a block that no peak forbids
# Ops whose results are new memory, which nobody else knows.
FRESH = frozenset((*UFUNCS, "gemm", "matmul", "mm", "linear", "tanh_grad", "relu_grad", "relu", "bias_activation",
                   "layer_jet", "layer_linear", "layer_terms", "packed_codes", "packed_scaled", "unpacked",
                   "basic_index_backward"))
FRESH_GRADIENTS = frozenset(("layer_jet", "layer_terms"))  # ops of which that holds for the results of the fused rules


def is_fresh(node: Node) -> bool:
    """Whether the results of an instruction are new memory, which nobody else knows."""
    if isinstance(node, FusedRule):
        return node.op in FRESH_GRADIENTS
    return isinstance(node, Call) and node.op.name in FRESH


@dataclass(eq=False)
class Slot:
    """Memory that values hold one after the other. A place of -1: it is not in the block of the program."""

    shape: tuple[int, ...]
    dtype: np.dtype
    begin: int
    end: int
    place: int = -1
    number: int = -1
    values: list[Value] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Its size in bytes, rounded up."""
        return -(-math.prod(self.shape) * self.dtype.itemsize // GRAIN) * GRAIN

    def overlaps(self, other: Slot) -> bool:
        """Whether both have bytes in common, of the block of the program."""
        return self.place < other.place + other.nbytes and other.place < self.place + self.nbytes


class Plan:
    """The places of the results of instructions.

    emitters: for each instruction, what writes it into given memory, or None. returns: what the program returns.
    fixed: the roots of memory that is from outside, or written to.
    """

    def __init__(
        self, nodes: Sequence[Node], emitters: Sequence[Any], returns: Iterable[Value], fixed: set[int]
    ) -> None:
        fresh = {v for node in nodes if is_fresh(node) for v in node.outs}
        self.root = roots(nodes, fresh)
        self._fixed, self._fresh = {self.root.get(r, r) for r in fixed}, fresh
        self._apart = {v for node in nodes if isinstance(node, FusedRule) for v in node.outs if v in fresh}
        self.kept = self.escaping(nodes, returns)
        self._last = self.last_uses(nodes)
        self.over: dict[Value, Value] = {}  # by result: the operand in whose memory it is put
        self.scratch: dict[int, list[Slot]] = {}  # by number of the instruction: memory that it needs for itself
        self._slots: dict[Value, Slot] = {}
        for i, (node, emitter) in enumerate(zip(nodes, emitters, strict=True)):
            if emitter is not None:
                self._assign(i, node, emitter)
        slots = {id(s): s for s in (*self._slots.values(), *(s for made in self.scratch.values() for s in made))}
        within = [s for s in slots.values() if self._may_be_placed(s)]
        most = max(int(1.125 * self.peak(nodes)), LITTLE)
        self.size = place(within)
        while within and self.size + self._beside(nodes, within) > most:
            largest = max(within, key=lambda s: s.nbytes)
            largest.place = -1
            within.remove(largest)
            self.size = place(within)
        self.placed = sorted(within, key=lambda s: s.begin)
        self.arrays: list[tuple[int, tuple[int, ...], np.dtype]] = []  # by number: place, shape and dtype
        for slot in self.placed:
            key = slot.place, slot.shape, slot.dtype
            if key not in self.arrays:
                self.arrays.append(key)
            slot.number = self.arrays.index(key)

    def _assign(self, i: int, node: Node, emitter: Any) -> None:
        free = [u for u in emitter.over if all(w is u or self.root_of(w) != self.root_of(u) for w in node.reads)]
        for v in emitter.outs:
            operand = next((u for u in free if self._may_take(i, u, v)), None)
            if operand is not None:
                self.over[v] = operand
                free.remove(operand)
            slot = None if operand is None else self._slots.get(operand)
            if slot is None:
                slot = Slot(v.shape, v.dtype, i, i)
            self._slots[v] = slot
            slot.end = max(slot.end, self._last[self.root_of(v)])
            slot.values.append(v)
            if operand is not None:
                slot.values.append(operand)
        self.scratch[i] = [Slot(shape, dtype, i, i) for shape, dtype in emitter.scratch]

    def _may_take(self, i: int, u: Value, v: Value) -> bool:
        """Whether v may be put into the memory of u, an operand of instruction i."""
        alike = u.shape == v.shape and u.dtype == v.dtype and u.array.strides == v.array.strides
        return alike and self.is_free_behind(i, u) and v.is_whole and self.root_of(v) not in self._fixed

    def is_free_behind(self, i: int, u: Value) -> bool:
        """Whether all of the memory of u is the program's, and nothing reads it behind instruction i.

        Gradients of a fused rule that are new memory have nothing in common, though they may be views.
        """
        root, own = self.root_of(u), (u.is_whole and (u in self._fresh or u in self._slots)) or u in self._apart
        return own and u.kind == RESULT and self._last[root] == i and root not in self._fixed

    def _may_be_placed(self, slot: Slot) -> bool:
        own = all(v in self._slots and v.is_whole and type(v.array) is np.ndarray and v.array.flags.c_contiguous
                  and self.root_of(v) not in self._fixed and self.root_of(v) not in self.kept for v in slot.values)
        return own and 0 < slot.nbytes < LARGE

    def _beside(self, nodes: Sequence[Node], within: Sequence[Slot]) -> int:
        """The peak of what is not in the block."""
        return self.peak(nodes, {self.root_of(v) for v in (*self.over, *(v for slot in within for v in slot.values))})

    def slot(self, v: Value) -> Slot | None:
        """The slot of a value in the block of the program, or None."""
        slot = self._slots.get(v)
        return slot if slot is not None and slot.place >= 0 else None

    def is_dead(self, i: int, v: Value) -> bool:
        """Whether instruction i and those behind it do not touch the memory of v."""
        return self._last[self.root_of(v)] < i

    def alive(self, nodes: Sequence[Node], i: int) -> dict[int, int]:
        """The bytes of the results before instruction i that it, or one behind it, touches; by root of memory."""
        sizes: dict[int, int] = {}
        for v in [v for node in nodes[:i] for v in node.made() if v.kind == RESULT and not self.is_dead(i, v)]:
            sizes.setdefault(self.root_of(v), v.array.nbytes)
        return sizes

    def root_of(self, v: Value) -> int:
        """Identifies the memory of a value."""
        return self.root.get(v.root, v.root)

    def last_uses(self, nodes: Sequence[Node]) -> dict[int, int]:
        """By root of memory: the last instruction that touches it; the number of all for what somebody keeps."""
        last = {self.root_of(v): i for i, node in enumerate(nodes) for v in (*node.reads, *node.made())}
        return {**last, **dict.fromkeys(self.kept, len(nodes))}

    def escaping(self, nodes: Sequence[Node], returns: Iterable[Value]) -> set[int]:
        """The roots of memory that somebody keeps after the call: results, `.grad`s, and what a routine gets."""
        kept = [v for node in nodes if isinstance(node, (SetGrad, Routine)) for v in (*node.reads, *node.made())]
        return {self.root_of(v) for v in (*returns, *kept)}

    def peak(
        self, nodes: Sequence[Node], without: Iterable[int] = (), beside: Callable[[Node], int] | None = None
    ) -> int:
        """The most bytes of results that are alive at a time, each in memory of its own until its last use.

        beside: the bytes that an instruction needs for itself; with these, results may lie in the memory of an operand.
        """
        left, most, alive = set(without), 0, 0
        dying: dict[int, int] = {}
        for i, node in enumerate(nodes):
            for v in node.made():
                root = self.root_of(v)
                if v.kind == RESULT and root not in left:
                    left.add(root)
                    size = -(-v.array.nbytes // GRAIN) * GRAIN
                    if beside is not None and v in self.over:
                        dying[i] -= size
                    else:
                        alive += size
                    dying[self._last[root]] = dying.get(self._last[root], 0) + size
            most = max(most, alive + (0 if beside is None else beside(node)))
            alive -= dying.get(i, 0)
        return most


def roots(nodes: Sequence[Node], fresh: Container[Value]) -> dict[int, int]:
    """By root in the trace: the root in a run, of memory that a run may share though the trace did not.

    A pass may have put the memory of one call in the place of another one's, of which a view was made.
    """
    root: dict[int, int] = {}

    def find(r: int) -> int:
        while r in root:
            r = root[r]
        return r

    for node in nodes:
        for v in node.made():
            if not v.is_whole and v not in fresh:
                for u in node.reads:
                    a, b = find(v.root), find(u.root)
                    if a != b:
                        root[a] = b
    return {r: find(r) for r in root}


def place(slots: Sequence[Slot]) -> int:
    """Gives each slot the lowest place that is free while it is alive; returns the size of the block."""
    size = 0
    done: list[Slot] = []
    for slot in sorted(slots, key=lambda s: (-s.nbytes, s.begin)):
        taken = sorted((s.place, s.place + s.nbytes) for s in done if s.begin <= slot.end and slot.begin <= s.end)
        at = 0
        for begin, end in taken:
            if begin - at >= slot.nbytes:
                break
            at = max(at, end)
        slot.place = at
        done.append(slot)
        size = max(size, at + slot.nbytes)
    return size
