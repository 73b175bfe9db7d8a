"""The loops of CuPy's ufuncs and reductions, from the committed table, and CuPy's rule for choosing one.

    1. Loops are tried in their order. The first one is taken to whose inputs every operand can be cast safely.
    2. A Python number beside arrays of its own kind or a higher one is weak: it fits wherever it would not promote.
    3. In comparisons a Python integer beside an array of integers is not weak.
    4. Given `dtype=`, the first loop with that result is taken, whatever the operands are.

So a ufunc without a bfloat16 loop computes in float32, and its result is float32.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_TABLE: dict[str, Any] = json.loads((pathlib.Path(__file__).parent / "loops.json").read_text())
_COMPARISONS = frozenset(f"cupy.{name}" for name in (
    "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or",
))  # fmt: skip
# How high the kind of a Python number is, and of an array's dtype; what is not NumPy's own, as bfloat16, is highest.
_OF_NUMBERS = {int: 1, float: 2, complex: 2}
_OF_ARRAYS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 2}
Weak = tuple[type | None, ...]  # int, float or complex for a Python number, None for what has a dtype


class Loop(NamedTuple):
    taken: tuple[np.dtype, ...]
    given: tuple[np.dtype, ...]
    refused: bool


@functools.cache
def loops(name: str) -> tuple[Loop, ...]:
    """All loops of `name`, in the order in which CuPy tries them."""
    return tuple(map(_parse, _TABLE[name]))


def _parse(text: str) -> Loop:
    taken, given = text.split("->")
    refused = given == "!"
    return Loop(tuple(map(_dtype, taken)), () if refused else tuple(map(_dtype, given)), refused)


def _dtype(char: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if char == "E" else char)


def types(name: str) -> list[str]:
    """The table's own words, as `ufunc.types` gives them."""
    return list(_TABLE[name])


@functools.lru_cache(8192)
def choose(name: str, dtypes: tuple[np.dtype, ...], weak: Weak, dtype: np.dtype | None = None) -> Loop:
    """The loop for operands of `dtypes`; TypeError if there is none, or if CuPy refuses it."""
    if dtype is not None:
        source = loops(f"{name} dtype") if f"{name} dtype" in _TABLE else loops(name)
        found = next((loop for loop in source if all(given == dtype for given in loop.given)), None)
    else:
        weak = _counting(name, dtypes, weak)
        found = next((loop for loop in loops(name) if _takes(loop, dtypes, weak)), None)
    if found is None:
        raise TypeError(f"Wrong type ({dtypes if dtype is None else dtype}) of arguments for {name}")
    if found.refused:
        raise TypeError(f"{name} of booleans is refused by CuPy, as by NumPy")
    return found


def _counting(name: str, dtypes: tuple[np.dtype, ...], weak: Weak) -> Weak:
    """`weak` without the numbers that count with their own dtypes after all (rules 2 and 3)."""
    numbers = [_OF_NUMBERS[kind] for kind in weak if kind is not None]
    arrays = [dtype.kind for dtype, kind in zip(dtypes, weak, strict=True) if kind is None]
    if not numbers or not arrays or max(_OF_ARRAYS.get(kind, 3) for kind in arrays) < max(numbers):
        return (None,) * len(weak)
    if name in _COMPARISONS and arrays[0] in "iu":
        return tuple([None if kind is int else kind for kind in weak])
    return weak


def _takes(loop: Loop, dtypes: tuple[np.dtype, ...], weak: Weak) -> bool:
    return all(
        np.can_cast(dtype, taken) or (kind is not None and _stays(kind, taken))
        for dtype, taken, kind in zip(dtypes, loop.taken, weak, strict=True)
    )


def _stays(kind: type, dtype: np.dtype) -> bool:
    """Whether a number beside an array of `dtype` leaves the result in it."""
    try:
        return np.result_type(kind(0), dtype) == dtype
    except TypeError:
        return False
