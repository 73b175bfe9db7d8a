"""Classes as numbers: which of them there are."""

from __future__ import annotations

from ..backend import cpu


def clean(target, classes, ignore_index):
    """Whether on the CPU every target is a class; IndexError for one that is neither a class nor ignored."""
    if not target.size:
        return True
    low, high = cpu.ends(target)
    if low >= 0 and high < classes:
        return not 0 <= ignore_index < classes
    wrong = target[(target != ignore_index) & ((target < 0) | (target >= classes))]
    if wrong.size:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    return False


def within(xp, target, classes):
    """`target` with ignored rows moved to some class."""
    return xp.minimum(xp.maximum(target, 0), classes - 1)
