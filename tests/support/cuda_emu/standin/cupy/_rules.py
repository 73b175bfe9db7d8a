"""Functions that CuPy 14.2 composes of several kernels, and how many they are, from reading its source.

The names behind each rule are those of CuPy's files: cuda/cub.pyx, _core/_routines_*.pyx, _creation, _indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._array import ndarray


def of_call(name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int | None:
    """How many kernels CuPy launches for the function `name`; None if there is no rule."""
    return RULES[name](args, kwargs, out) if name in RULES and args else None


def overlapping(inputs: Sequence[ndarray], outs: Sequence[ndarray]) -> int:
    """How many inputs of a ufunc are copied first: those that share memory with a result and are another object."""
    return sum(any(x is not out and np.may_share_memory(x._a, out._a) for out in outs) for x in inputs)


def _argument(args: Sequence[Any], kwargs: dict[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def by_cub(x: ndarray, axis: Any, dtype: Any, summing: bool) -> bool:
    """Whether CUB reduces `x`: a dtype that it need not convert, and dimensions that lie together in memory."""
    kinds = "lLqQefdFD" if summing and dtype is None else "bhilqBHILQefdFD"
    if x.dtype.char not in kinds or (dtype is not None and np.dtype(dtype) != x.dtype):
        return False
    axes = sorted(i % x.ndim for i in (range(x.ndim) if axis is None else np.atleast_1d(axis).tolist()))
    if len(axes) == x.ndim:
        return x.flags.forc
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return together and (axes[-1] == x.ndim - 1 if x.flags.c_contiguous else x.flags.f_contiguous and axes[0] == 0)


def _reduction(summing: bool) -> Callable[..., int]:
    """One kernel, in CUB's hands, too, which makes two of a large sum; CUB does not write into a given `out`, and
    takes rows only for a sum over everything."""

    def count(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
        x, axis, dtype = args[0], _argument(args, kwargs, 1, "axis"), _argument(args, kwargs, 2, "dtype")
        if not by_cub(x, axis, dtype if summing else None, summing):
            return 1
        everything = axis is None or np.size(axis) == x.ndim
        return 1 + (out is not None) + (everything and not x.flags.c_contiguous)

    return count


def _mean(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """CUB's sum and a division, or a kernel that does both; what is not float32 or float64 is converted after it."""
    x, axis, dtype = args[0], _argument(args, kwargs, 1, "axis"), _argument(args, kwargs, 2, "dtype")
    plain = dtype is None and x.dtype.char in "fdFD"
    summed = 1 + by_cub(x, axis, dtype, True) if plain or dtype is not None else 1
    return summed + (not plain and out is None)


def _variance(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """The mean, in the array's dtype, and a kernel."""
    return _mean([args[0], _argument(args, kwargs, 1, "axis"), args[0].dtype], {}, None) + 1


def _place(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """The place of an extremum: of everything CUB finds it, in 32 bits that are converted."""
    x, everything = args[0], _argument(args, kwargs, 1, "axis") is None
    if not (everything and by_cub(x, None, None, False)):
        return 1
    return 2 + (not x.flags.c_contiguous) + (out is not None)


def _joined(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """A copy for each array, or a single kernel."""
    return 1 if _by_one_kernel(args[0], out) else sum(x.size > 0 for x in args[0])


def _by_one_kernel(arrays: Sequence[ndarray], out: Any) -> bool:
    """Whether a single kernel joins the arrays: more than eight small ones of the result's dtype."""
    small = sum(x.nbytes for x in arrays) < 2 * 1024 * 1024 * len(arrays)
    return len(arrays) > 8 and small and len({x.dtype for x in (*arrays, *([] if out is None else [out]))}) == 1


def tables(name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> list[tuple[int, ...]]:
    """The shapes of the tables that a kernel which joins many arrays reads, and CuPy copies to the device before: their
    addresses; ends and strides, too, if they are not contiguous or differ in size along the axis."""
    if name not in ("concatenate", "stack", "hstack", "vstack") or not _by_one_kernel(args[0], out):
        return []
    arrays, first = args[0], args[0][0]
    axis = min(1, first.ndim - 1) if name == "hstack" else kwargs.get("axis", args[1] if len(args) > 1 else 0)
    sizes = {1 if name == "stack" or not x.ndim else x.size if axis is None else x.shape[axis] for x in arrays}
    alike = len(sizes) == 1 and all(x.flags.c_contiguous for x in arrays)
    count = len(arrays)
    return [(count,)] if alike else [(count,), (count,), (count, max(1, first.ndim))]


def _taken_along(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """An arange for each other dimension, then an index made of all."""
    dimensions = 1 if _argument(args, kwargs, 2, "axis") is None else args[0].ndim
    return dimensions - 1 + by_arrays(dimensions)


def by_arrays(arrays: int) -> int:
    """Reads or writes by so many integer arrays: several are made one first, by a memset and a kernel for each."""
    return 1 if arrays == 1 else arrays + 2


RULES: dict[str, Callable[..., int | None]] = {
    "sum": _reduction(True), "prod": _reduction(True), "max": _reduction(False), "min": _reduction(False),
    "amax": _reduction(False), "amin": _reduction(False), "mean": _mean, "var": _variance,
    "std": lambda *call: _variance(*call) + 1,
    "argmax": _place, "argmin": _place,
    "concatenate": _joined, "stack": _joined, "hstack": _joined, "vstack": _joined,
    "take_along_axis": _taken_along,
    "eye": lambda *call: 2, "identity": lambda *call: 2, "expm_inner": lambda *call: 1,
    "diff": lambda args, kwargs, out: 1 if len(args) == 1 and kwargs.keys() <= {"axis"} else None,
}  # fmt: skip
