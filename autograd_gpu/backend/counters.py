"""Counts of matrix products, kernel launches and derivative rules for the profiler.

`ACTIVE` is empty unless a profiler runs, so a call site pays one truth test of a list. Counts cover the whole process,
since the engine may run deep reentrant calls on helper threads.
"""

from __future__ import annotations

import threading
from collections import Counter


class Counts:
    """The counters of one `profiler.count()` block: products by shape, launches by kernel, rules by name."""

    def __init__(self) -> None:
        self.matmuls: Counter[tuple[int, ...]] = Counter()
        self.launches: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()


ACTIVE: list[Counts] = []
LOCK = threading.Lock()


def matmul(shape: tuple[int, ...]) -> None:
    with LOCK:
        for counts in ACTIVE:
            counts.matmuls[shape] += 1


def launch(kernel: str) -> None:
    with LOCK:
        for counts in ACTIVE:
            counts.launches[kernel] += 1


def rule(name: str) -> None:
    with LOCK:
        for counts in ACTIVE:
            counts.rules[name] += 1
