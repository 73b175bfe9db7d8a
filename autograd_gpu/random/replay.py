"""Blocks whose random numbers come again: a snapshot notes where generators were, a replay begins there.

A position is noted when a generator is first used, not when the block begins: a block that draws nothing costs nothing.
In a replay other generators stand in for those that are used, on this thread only: what other threads draw, and what
comes after, stays what it was.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ..core.generator import GeneratorLike, StreamPosition
from ..modes import MODES

G = TypeVar("G", bound=GeneratorLike)


class _Block:
    again = False  # whether what is drawn inside was drawn before

    def __enter__(self) -> None:
        MODES.drawing = (*MODES.drawing, self)

    def __exit__(self, *exc: object) -> None:
        MODES.drawing = tuple([block for block in MODES.drawing if block is not self])


class GeneratorSnapshot(_Block):
    """Where each generator that this thread uses in the block was before; also those that are no default ones."""

    def __init__(self) -> None:
        self.noted: dict[GeneratorLike, StreamPosition] = {}

    def now(self) -> dict[GeneratorLike, StreamPosition]:
        """Where these generators are now."""
        return {generator: generator.place() for generator in self.noted}


class GeneratorReplay(_Block):
    """A block in which this thread draws what was drawn in the block of `snapshot`; generators noted nowhere go on.

    >>> snapshot = ag.random.replay.GeneratorSnapshot()
    >>> with snapshot:
    ...     first = ag.rand(2)
    >>> with ag.random.replay.GeneratorReplay(snapshot):
    ...     again = ag.rand(2)
    >>> bool((first == again).all())
    True
    """

    again = True

    def __init__(self, snapshot: GeneratorSnapshot) -> None:
        self.snapshot, self.stand_ins = snapshot, dict[Any, Any]()

    def __enter__(self) -> None:
        self.outside = MODES.drawing
        super().__enter__()

    def stand_in(self, generator: G) -> G:
        replica = self.stand_ins.get(generator)
        if replica is None:
            position = self.snapshot.noted.get(generator) or _actual(generator, self.outside)._place()
            replica = self.stand_ins[generator] = generator.at(position)
        return replica


def used(generator: G) -> G:
    """What stands in for a generator that is about to be used on a thread that is in a block; snapshots note it."""
    actual = _actual(generator, MODES.drawing)
    for block in reversed(MODES.drawing):
        if isinstance(block, GeneratorReplay):
            break
        if isinstance(block, GeneratorSnapshot) and generator not in block.noted:
            block.noted[generator] = actual._place()
    return actual


def _actual(generator: G, blocks: tuple[_Block, ...]) -> G:
    replays = [block for block in blocks if isinstance(block, GeneratorReplay)]
    return replays[-1].stand_in(generator) if replays else generator


def is_replaying() -> bool:
    """Whether this thread is in a `GeneratorReplay`."""
    return any(isinstance(block, GeneratorReplay) for block in MODES.drawing)
