"""Classes as numbers: which of them there are, and how kernels take them."""

from __future__ import annotations

from ...backend import kernels
from ...backend.arrays.dtypes import int64, wide
from ...backend.cpu import numpy_ops


def clean(target, classes, ignore_index):
    """Whether on the CPU every target is a class; IndexError for one that is neither a class nor ignored."""
    if not target.size:
        return True
    low, high = numpy_ops.ends(target)
    if low >= 0 and high < classes:
        return not 0 <= ignore_index < classes
    wrong = target[(target != ignore_index) & ((target < 0) | (target >= classes))]
    if wrong.size:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    return False


def within(xp, target, classes):
    """`target` with ignored rows moved to some class."""
    return xp.minimum(xp.maximum(target, 0), classes - 1)


def dense(x, dtype):
    """x as a contiguous array of `dtype`: itself, or a copy."""
    return x.astype(dtype, order="C", copy=False)


def given(dtype, target, weight, ignore_index, smoothing=0.0):
    """What the kernels take beside logits of `dtype`: the classes in int64, their weights in the wide dtype."""
    weight = None if weight is None else dense(weight, wide(dtype))
    return kernels.Classes(dense(target, int64), weight, ignore_index, smoothing)
