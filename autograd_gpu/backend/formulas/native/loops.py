"""The steps of a run (runs.py) for loops over arrays that need not be one block of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from . import runs
from .llvm_code import STRIP
from .runs import MOST_OPERANDS, Operand, Place
from .switch import say
from .ufunc import Unavailable, inner_loop

Listed = tuple[Place, tuple[int, ...], int]  # an operand of a loop: where it is, its strides and the size of an element
New = Callable[[int, np.dtype], Place]  # memory for so many elements


class Unfit(Exception):
    """What is no part of a run."""


def loop_of(name: str, dtype: np.dtype) -> tuple[int, int]:
    """The inner loop of a ufunc of NumPy."""
    try:
        return inner_loop(name, dtype)
    except Unavailable as error:
        say(str(error))
        raise Unfit from None


def strides_of(array: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an operand of a loop over this shape."""
    return (0,) * len(shape) if array.size == 1 else np.broadcast_to(array, shape).strides


def dense(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of a row-major array."""
    return tuple([size * math.prod(shape[k + 1 :]) for k in range(len(shape))])


def over(function: tuple[int, int], listed: Sequence[Listed], shape: tuple[int, ...], new: New) -> list[list[int]]:
    """The steps for a loop over operands of a shape."""
    if len(listed) > MOST_OPERANDS:
        raise Unfit
    elements = math.prod(shape)
    if all(strides == dense(shape, size) or not any(strides) for _, strides, size in listed):
        return [runs.loop(function, 1, elements, [Operand(place, 0, size * any(s)) for place, s, size in listed])]
    rows, columns = shape if len(shape) == 2 else (1, elements)
    by_rows = len(shape) == 2 and all(
        strides in ((0, 0), (0, size), dense(shape, size)) for _, strides, size in listed
    )
    whole_words = all(columns * size % 4 == 0 for _, strides, size in listed if strides == (0, size))
    if by_rows and whole_words and (block := STRIP // columns) > 1:
        return _by_blocks(function, listed, rows, columns, min(block, rows), new)
    return strided(function, [(place, strides) for place, strides, _ in listed], shape)


def _by_blocks(
    function: tuple[int, int], listed: Sequence[Listed], rows: int, columns: int, block: int, new: New
) -> list[list[int]]:
    """A loop by blocks of rows, for which operands that are rows are repeated: fewer calls for narrow arrays."""
    times, rest = divmod(rows, block)
    steps, operands = [], []
    for place, strides, size in listed:
        row = columns * size
        if strides == (0, size):
            repeated = new(block * columns, np.dtype(f"u{size}"))
            steps.append(runs.copies(block, row, place, repeated))
            operands.append(Operand(repeated, 0, size))
        else:
            operands.append(Operand(place, block * row if any(strides) else 0, size * any(strides)))
    steps.append(runs.loop(function, times, block * columns, operands))
    if rest:
        last = [Operand(Place(p.number, p.offset + times * outer), 0, inner) for p, outer, inner in operands]
        steps.append(runs.loop(function, 1, rest * columns, last))
    return steps


def strided(
    function: tuple[int, int], listed: Sequence[tuple[Place, tuple[int, ...]]], shape: tuple[int, ...]
) -> list[list[int]]:
    """The step for a loop over operands of any strides."""
    if len(shape) > 2:
        raise Unfit
    rows, columns = (1, *shape) if len(shape) == 1 else shape
    operands = [Operand(place, *((0, *strides) if len(shape) == 1 else strides)) for place, strides in listed]
    return [runs.loop(function, rows, columns, operands)]
