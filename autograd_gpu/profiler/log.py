"""What one thread recorded: a ring of records, and the spans that are open.

A record is a tuple, since making one takes 60 ns; `Record` names its fields. Records are numbered in the order in which
they begin, so that number and depth together give the tree of spans, whatever the clock says.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A span, or an instant, whose `end` is None. Times are those of perf_counter_ns."""

    order: int
    depth: int
    kind: str  # one of KINDS
    name: str
    start: int
    end: int | None
    sequence: int | None  # of the node that the call made, or that runs
    drawn: int  # a sequence number that was drawn just before the call
    shapes: tuple[Any, ...] | None  # of the inputs
    stack: tuple[tuple[str, int, str], ...] | None  # (file, line, function), innermost first
    marks: Any  # on CUDA: what device_time.py measures
    facts: Any


# Kinds of spans, and of instants.
OP, FUNCTION, NODE, TASK, RANGE, OPTIMIZER, PACK, UNPACK, REPLAY = (
    "op", "function", "node", "task", "range", "optimizer", "pack", "unpack", "replay")  # fmt: skip
LAUNCH, PRODUCT, COPY, SKIPPED = "launch", "product", "copy", "skipped"


class Log:
    """The records of one thread, the latest `limit` of them."""

    __slots__ = ("depth", "name", "open", "order", "records", "thread")

    def __init__(self, limit: int) -> None:
        self.records: deque[tuple[Any, ...]] = deque(maxlen=limit)
        self.order = self.depth = 0
        self.open: list[Any] = []  # the spans of `with` statements
        self.thread, self.name = threading.get_native_id(), threading.current_thread().name

    def note(self, kind: str, name: str, now: int, facts: Any = None) -> None:
        """Records an instant. The facts of a product are its shape, for an event to make words of."""
        self.order += 1
        self.records.append((self.order, self.depth, kind, name, now, None, None, -1, None, None, None, facts))

    @property
    def dropped(self) -> int:
        """How many records the ring has lost."""
        full = len(self.records) == self.records.maxlen
        return self.order - len(self.records) - len(self.open) if full else 0
