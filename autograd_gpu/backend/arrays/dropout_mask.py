"""Dropout masks that are a few numbers, from which either device computes their bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """A dropout mask of `count` bits, each true with probability `keep`; a bit applies to `per_bit` adjacent elements.

    The bits come from the Philox counters from `start` on, with key `seed`; a counter gives four bits.
    """

    seed: int
    start: int
    keep: float
    count: int
    per_bit: int = 1


def threshold(probability: float) -> int:
    """The bound below which a random 32-bit word is with this probability."""
    return round(float(probability) * 2**32)
