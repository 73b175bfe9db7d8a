"""What the profilers hear of the work on arrays: matrix products, kernel launches, copies, derivative rules.

`ACTIVE` is empty unless a profiler runs, so a call site pays one truth test of a list. Observers hear of the whole
process, since the engine may run deep reentrant calls on helper threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Observer:
    """Hears of what runs, on any thread; a subclass overrides what it wants to hear of."""

    def saw_matmul(self, shape: tuple[int, ...]) -> None:
        """A matrix product (m, k, n) ran, or a batch of them, (b, m, k, n)."""

    def saw_launch(self, kernel: str) -> None:
        """A kernel was launched."""

    def saw_copy(self, way: str, nbytes: int) -> None:
        """Bytes were copied; `way` is "host to device", "device to host" or "device to device"."""

    def saw_rules(self, node: Any, need: int) -> None:
        """A node of a graph calls the rules of its inputs in the mask `need`."""


class Counts(Observer):
    """The counters of one `profiler.count()` block: products by shape, launches by kernel, rules by name."""

    def __init__(self) -> None:
        self.matmuls: Counter[tuple[int, ...]] = Counter()
        self.launches: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()

    def saw_matmul(self, shape: tuple[int, ...]) -> None:
        self.matmuls[shape] += 1

    def saw_launch(self, kernel: str) -> None:
        self.launches[kernel] += 1

    def saw_rules(self, node: Any, need: int) -> None:
        self.rules.update(node.rules(need))


ACTIVE: list[Observer] = []
LOCK = threading.Lock()


class _Tracing:
    """The tracer that records now: the observer in ACTIVE that also hears when things begin and end."""

    tracer: Any = None  # a profiler.recorder.Recorder, or None


TRACING = _Tracing()


_UNHEARD = set[int]()  # threads whose products are trials


@contextmanager
def unheard() -> Iterator[None]:
    """No observer hears of products of this thread."""
    _UNHEARD.add(threading.get_ident())
    try:
        yield
    finally:
        _UNHEARD.discard(threading.get_ident())


def matmul(shape: tuple[int, ...]) -> None:
    if threading.get_ident() in _UNHEARD:
        return
    with LOCK:
        for observer in ACTIVE:
            observer.saw_matmul(shape)


def launch(kernel: str) -> None:
    with LOCK:
        for observer in ACTIVE:
            observer.saw_launch(kernel)


def copied(way: str, nbytes: int) -> None:
    with LOCK:
        for observer in ACTIVE:
            observer.saw_copy(way, nbytes)


def rules(node: Any, need: int) -> None:
    with LOCK:
        for observer in ACTIVE:
            observer.saw_rules(node, need)
