"""Converts sets of a node's inputs between an int bitmask and a list of bools, in linear time for many inputs, too."""

from __future__ import annotations

from collections.abc import Sequence

FEW = 64  # up to this number of inputs, shifts are faster than text


def mask_of(flags: Sequence[bool]) -> int:
    """The int whose bit i is wanted[i]."""
    if len(flags) > FEW:
        return int("".join(["1" if flag else "0" for flag in reversed(flags)]), 2)
    mask, bit = 0, 1
    for flag in flags:
        if flag:
            mask |= bit
        bit <<= 1
    return mask


def bits_of(mask: int, n: int) -> list[bool]:
    """The n lowest bits of `mask`, the lowest first."""
    if n > FEW:
        if mask == (1 << n) - 1:  # the most frequent case
            return [True] * n
        return [digit == "1" for digit in reversed(f"{mask:0{n}b}")]
    return [mask >> i & 1 == 1 for i in range(n)]
