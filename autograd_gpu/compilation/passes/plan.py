"""plan: where the results of a program lie: in memory of the program, over an operand that dies, or in new memory.

Memory of the program is one block, in which results that are not alive at the same time share bytes. Results, `.grad`s
and what a backward reads are always new. The peak is at most that of the instructions run in order, each result in
memory of its own until its last use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend.cpu.pool import SMALLEST as LARGE
from ...backend.cpu.pool import owns
from ..graph import RESULT, Node, Routine, SetGrad, Value

GRAIN = 64  # bytes, to which places are rounded up


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
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return -(-size // GRAIN) * GRAIN


class Plan:
    """The places of the results of instructions.

    emitters: for each instruction, what writes it into given memory, or None. returns: what the program returns.
    fixed: the roots of memory that is from outside, or written to. fresh: the values that are new memory, which nobody
    else knows, though no emitter makes them.
    """

    def __init__(
        self, nodes: Sequence[Node], emitters: Sequence[Any], returns: Iterable[Value], fixed: set[int],
        fresh: set[Value],
    ) -> None:  # fmt: skip
        self._fixed, self._fresh = fixed, fresh
        self._last = last_uses(nodes, returns)
        self._escaping = escaping(nodes, returns)
        self.over: dict[Value, Value] = {}  # by result: the operand in whose memory it is put
        self.scratch: dict[int, list[Slot]] = {}  # by number of the instruction: memory that it needs for itself
        self._slots: dict[Value, Slot] = {}
        self._of_root: dict[int, Slot] = {}
        for i, (node, emitter) in enumerate(zip(nodes, emitters, strict=True)):
            if emitter is not None:
                self._assign(i, node, emitter)
        slots = {id(s): s for s in (*self._slots.values(), *(s for made in self.scratch.values() for s in made))}
        within = [s for s in slots.values() if self._may_be_placed(s)]
        most = peak(nodes, self._last)
        self.size = place(within)
        while within and self.size + self._beside(nodes, within) > most:
            largest = max(within, key=lambda s: s.nbytes)
            largest.place = -1
            within.remove(largest)
            self.size = place(within)
        self.placed = sorted(within, key=lambda s: s.begin)
        for number, slot in enumerate(self.placed):
            slot.number = number

    def _assign(self, i: int, node: Node, emitter: Any) -> None:
        for v in emitter.outs:
            operand = next((u for u in emitter.over if self._may_take(i, u, v)), None) if v is emitter.outs[0] else None
            if operand is not None:
                self.over[v] = operand
            slot = None if operand is None else self._slots.get(operand)
            if slot is None:
                slot = Slot(v.shape, v.dtype, i, i)
            self._slots[v] = slot
            slot.end = max(slot.end, self._last.get(v.root, i))
            slot.values.append(v)
            if operand is not None:
                slot.values.append(operand)
        self.scratch[i] = [Slot(shape, dtype, i, i) for shape, dtype in emitter.scratch]

    def _may_take(self, i: int, u: Value, v: Value) -> bool:
        """Whether v may be put into the memory of u, an operand of instruction i."""
        alike = u.shape == v.shape and u.dtype == v.dtype and u.array.strides == v.array.strides
        return alike and u.kind == RESULT and (u in self._fresh or u in self._slots) and self._last[u.root] == i and (
            is_whole(u) and is_whole(v) and u.root not in self._fixed and v.root not in self._fixed
        )  # fmt: skip

    def _may_be_placed(self, slot: Slot) -> bool:
        own = all(v in self._slots and is_whole(v) and v.array.flags.c_contiguous and v.root not in self._fixed
                  and v.root not in self._escaping for v in slot.values)
        return own and 0 < slot.nbytes < LARGE

    def _beside(self, nodes: Sequence[Node], within: Sequence[Slot]) -> int:
        """The peak of what is not in the block."""
        inside = {v.root for slot in within for v in slot.values}
        return peak(nodes, self._last, inside | {v.root for v in self.over})

    def slot(self, v: Value) -> Slot | None:
        """The slot of a value in the block of the program, or None."""
        slot = self._slots.get(v)
        return slot if slot is not None and slot.place >= 0 else None


def is_whole(v: Value) -> bool:
    """Whether a value is all of its memory."""
    return v.array.base is None or owns(v.array)


def last_uses(nodes: Sequence[Node], returns: Iterable[Value]) -> dict[int, int]:
    """By root of memory: the last instruction that touches it; the number of all for what is returned."""
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for v in (*node.reads, *node.made()):
            last[v.root] = i
    last.update((v.root, len(nodes)) for v in returns)
    return last


def escaping(nodes: Sequence[Node], returns: Iterable[Value]) -> set[int]:
    """The roots of memory that somebody keeps after the call: results, `.grad`s, and what a routine gets."""
    found = {v.root for v in returns}
    for node in nodes:
        if isinstance(node, (SetGrad, Routine)):
            found.update(v.root for v in (*node.reads, *node.made()))
    return found


def peak(nodes: Sequence[Node], last: dict[int, int], without: Iterable[int] = ()) -> int:
    """The most bytes of results that are alive at a time, if each is in memory of its own until its last use."""
    sizes: dict[int, int] = {}
    left = set(without)
    most = alive = 0
    dying: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        for v in node.made():
            if v.kind == RESULT and v.root not in sizes and v.root not in left:
                sizes[v.root] = -(-v.array.nbytes // GRAIN) * GRAIN
                alive += sizes[v.root]
                dying.setdefault(last[v.root], []).append(v.root)
        most = max(most, alive)
        alive -= sum(sizes[root] for root in dying.get(i, ()))
    return most


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
