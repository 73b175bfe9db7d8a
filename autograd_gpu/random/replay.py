"""Blocks whose random numbers come again: `Places` notes where generators were, `Repeat` begins there.

A place is noted when a generator is first used, not when the block begins: a block that draws nothing costs nothing.
In a `Repeat` other generators stand in for those that are used, on this thread only: what other threads draw, and what
comes after, stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..config import MODES

if TYPE_CHECKING:
    from .generator import Generator

Place = tuple[int, Any]  # seed and state


class _Block:
    def __enter__(self) -> None:
        MODES.drawing = (*MODES.drawing, self)

    def __exit__(self, *exc: object) -> None:
        MODES.drawing = tuple([block for block in MODES.drawing if block is not self])


class Places(_Block):
    """Where each generator that this thread uses in the block was before; also those that are no default ones."""

    def __init__(self) -> None:
        self.noted: dict[Generator, Place] = {}

    def now(self) -> dict[Generator, Place]:
        """Where these generators are now."""
        return {generator: generator.place() for generator in self.noted}


class Repeat(_Block):
    """A block in which this thread draws what was drawn in the block of `places`; generators noted nowhere go on.

    >>> places = ag.random.replay.Places()
    >>> with places:
    ...     first = ag.rand(2)
    >>> with ag.random.replay.Repeat(places):
    ...     again = ag.rand(2)
    >>> bool((first == again).all())
    True
    """

    def __init__(self, places: Places) -> None:
        self.places, self.stand_ins = places, dict[Any, Any]()

    def __enter__(self) -> None:
        self.outside = MODES.drawing
        super().__enter__()

    def stand_in(self, generator: Generator) -> Generator:
        found = self.stand_ins.get(generator)
        if found is None:
            place = self.places.noted.get(generator) or _actual(generator, self.outside)._place()
            found = self.stand_ins[generator] = generator.at(place)
        return found


def used(generator: Generator) -> Generator:
    """What stands in for a generator that is about to be used on a thread that is in a block; Places note it."""
    actual = _actual(generator, MODES.drawing)
    for block in reversed(MODES.drawing):
        if isinstance(block, Repeat):
            break
        if isinstance(block, Places) and generator not in block.noted:
            block.noted[generator] = actual._place()
    return actual


def _actual(generator: Generator, blocks: tuple[_Block, ...]) -> Generator:
    repeats = [block for block in blocks if isinstance(block, Repeat)]
    return repeats[-1].stand_in(generator) if repeats else generator


def is_repeating() -> bool:
    """Whether this thread is in a `Repeat`."""
    return any(isinstance(block, Repeat) for block in MODES.drawing)
