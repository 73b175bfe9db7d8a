"""Class indices: checks, and the form in which kernels take them."""

from __future__ import annotations

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import int64, wide


def check_classes(target, classes, ignore_index):
    """Whether every target counts; IndexError for a class that is out of range and not ignored.

    The targets on CUDA are not looked at, and the result is False.
    """
    if not target.size:
        return True
    ends = backend.seen_ends(target)
    if ends is None:
        return False
    low, high = ends
    if low >= 0 and high < classes:
        return not 0 <= ignore_index < classes
    wrong = target[(target != ignore_index) & ((target < 0) | (target >= classes))]
    if wrong.size:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    return False


def clipped(xp, target, classes):
    """`target` with ignored indices replaced by valid ones."""
    return xp.minimum(xp.maximum(target, 0), classes - 1)


def contiguous_as(x, dtype):
    """x as a contiguous array of `dtype`: itself, or a copy."""
    return x.astype(dtype, order="C", copy=False)


def kernel_classes(dtype, target, weight, ignore_index, smoothing=0.0):
    """The arguments of the kernels for logits of `dtype`: the classes in int64, their weights in the wide dtype."""
    weight = None if weight is None else contiguous_as(weight, wide(dtype))
    return kernels.Classes(contiguous_as(target, int64), weight, ignore_index, smoothing)
