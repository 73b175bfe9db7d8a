"""Journals of the leaves whose `.grad` is set, kept while a CUDA graph is captured.

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

    def restore(self) -> None:
        """Sets every `.grad` to what it was."""
        for entry in self.values():
            entry.leaf._grad = entry.before


OPEN: list[Journal] = []  # of all threads
_MINE: ContextVar[Journal | None] = ContextVar("journal", default=None)


def note(leaf: Any, adds: bool = False) -> None:
    """Called before the `.grad` of `leaf` is set: writes down what it is, at the first time."""
    journal = _MINE.get()
    if journal is not None and id(leaf) not in journal:
        journal[id(leaf)] = Entry(leaf, adds)


@contextmanager
def keeping() -> Iterator[Journal]:
    """Gives the journal of what this thread, and the threads that help it, do inside the block."""
    journal = Journal()
    OPEN.append(journal)
    token = _MINE.set(journal)
    try:
        yield journal
    finally:
        _MINE.reset(token)
        OPEN[:] = [other for other in OPEN if other is not journal]
