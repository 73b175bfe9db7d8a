"""Journals of the leaves whose `.grad` is set, kept while a CUDA graph is captured or a call is traced.

A replay runs no Python, so the graph has to set them; and a capture that fails has to set them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .tensor_base import TensorBase


class Entry:
    """What happened to the `.grad` of a leaf: what it was, and whether something was added to that."""

    __slots__ = ("adds", "before", "leaf")

    def __init__(self, leaf: TensorBase, adds: bool) -> None:
        self.leaf, self.before, self.adds = leaf, leaf._grad, adds


class Journal(dict[int, Entry]):
    """The entries by the ids of the leaves, which they keep alive."""

    def note(self, leaf: Any, adds: bool) -> None:
        """Called before the `.grad` of `leaf` is set: writes down what it is, at the first time."""
        if id(leaf) not in self:
            self[id(leaf)] = Entry(leaf, adds)

    def restore(self) -> None:
        """Sets every `.grad` to what it was."""
        for entry in self.values():
            entry.leaf._grad = entry.before


OPEN: list[Journal] = []  # of all threads
_MINE: ContextVar[Journal | None] = ContextVar("journal", default=None)


def note(leaf: Any, adds: bool = False) -> None:
    """Tells the journal of this thread before the `.grad` of `leaf` is set, or added to in place."""
    journal = _MINE.get()
    if journal is not None:
        journal.note(leaf, adds)


@contextmanager
def keeping(journal: Journal | None = None) -> Iterator[Journal]:
    """Gives the journal of what this thread, and the threads that help it, do inside the block."""
    journal = Journal() if journal is None else journal
    OPEN.append(journal)
    token = _MINE.set(journal)
    try:
        yield journal
    finally:
        _MINE.reset(token)
        OPEN[:] = [other for other in OPEN if other is not journal]
