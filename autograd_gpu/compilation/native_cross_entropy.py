"""The cross entropy of classes as steps of a run, for classes that are all in range.

A program whose runs have such a step asks each call first, and runs its lines if a class is ignored or out of range.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.cpu import numpy_ops
from ..backend.formulas.native import runs
from ..backend.formulas.native.runs import MOST_ARRAYS, PICK, PUT, Operand, Place
from ..backend.formulas.native.ufunc import inner_loop
from .emitters import gradient_of_mean, mean_of_losses

Bind = Callable[[np.ndarray], Place]  # the place of an array that is not written to
New = Callable[[int, np.dtype], Place]  # the place of so many new elements


def are_usual(target: np.ndarray, classes: int, ignored: int) -> bool:
    """Whether all classes are in range, and none is ignored."""
    low, high = numpy_ops.ends(target)
    return bool(low >= 0 and high < classes and not 0 <= ignored < classes)


def loss_steps(
    shape: tuple[int, int], dtype: np.dtype, bind: Bind, new: New, x: Place, target: Place, loss: Place, probs: Place
) -> list[list[int]] | None:  # fmt: skip
    """What `mean_of_losses` does; None where the sums of rows are others."""
    (rows, classes), size = shape, dtype.itemsize
    row = classes * size
    highest, total, losses = (new(rows, dtype) for _ in range(3))
    zero, scale = bind(np.zeros(1, dtype)), bind(np.asarray(1.0 / rows, dtype))
    of_rows = runs.row_sums(shape, dtype, probs, bind(numpy_ops.ones(classes, dtype)), zero, total)
    if of_rows is None:
        return None

    def each(name: str, *places: Place, count: int = rows) -> list[int]:
        return runs.loop(inner_loop(name, dtype), 1, count, [Operand(place, 0, size) for place in places])

    def by_rows(name: str, *operands: Operand) -> list[int]:
        return runs.loop(inner_loop(name, dtype), rows, classes, operands)

    matrix, number = {place: Operand(place, row, size) for place in (x, probs)}, Operand(highest, size, 0)
    first = [Operand(x, 0, row), Operand(x, 0, row), Operand(highest, 0, size)]
    whole = [Operand(loss, 0, 0), Operand(losses, 0, size), Operand(loss, 0, 0)]
    return [
        runs.loop(inner_loop("maximum", dtype), 1, rows, first), by_rows("maximum", number, matrix[x], number),
        by_rows("subtract", matrix[x], number, matrix[probs]), each("exp", probs, probs, count=rows * classes),
        *of_rows, runs.elements(PICK, x, shape, size, target, losses), each("subtract", highest, losses, losses),
        by_rows("divide", matrix[probs], Operand(total, size, 0), matrix[probs]), each("log", total, total),
        each("add", losses, total, losses), runs.copies(1, size, zero, loss),
        runs.loop(inner_loop("add", dtype), 1, rows, whole), each("multiply", loss, scale, loss, count=1),
    ]  # fmt: skip


def gradient_steps(
    shape: tuple[int, int], dtype: np.dtype, new: New, h: Place, probs: Place, target: Place, scale: Place, out: Place
) -> list[list[int]]:  # fmt: skip
    """What `gradient_of_mean` does."""
    (rows, classes), size = shape, dtype.itemsize
    factor, picked = new(1, dtype), new(rows, dtype)
    multiply, number = inner_loop("multiply", dtype), Operand(factor, 0, 0)
    return [
        runs.loop(multiply, 1, 1, [Operand(place, 0, size) for place in (h, scale, factor)]),
        runs.loop(multiply, 1, rows * classes, [Operand(probs, 0, size), number, Operand(out, 0, size)]),
        runs.elements(PICK, out, shape, size, target, picked),
        runs.loop(inner_loop("subtract", dtype), 1, rows, [Operand(picked, 0, size), number, Operand(picked, 0, size)]),
        runs.elements(PUT, out, shape, size, target, picked),
    ]


@functools.lru_cache(1024)
def are_equal(shape: tuple[int, int], dtype: np.dtype) -> bool:
    """Whether the steps have the bits of NumPy's functions."""
    rng, (rows, classes) = np.random.default_rng(rows_of := shape[0]), shape
    x, target = rng.standard_normal(shape).astype(dtype), rng.integers(0, classes, rows_of)
    loss, probs, out, places = np.empty((), dtype), np.empty_like(x), np.empty_like(x), np.arange(rows)
    h, scale, held = np.asarray(0.7, dtype), np.asarray(1.0 / rows, dtype), list[Any]()

    def bind(array: np.ndarray) -> Place:
        held.append(array)
        return Place(MOST_ARRAYS + len(held) - 1)

    def new(elements: int, dtype: np.dtype) -> Place:
        return bind(np.empty(elements, dtype))

    at = [bind(array) for array in (x, target, loss, probs, h, scale, out)]
    steps = loss_steps(shape, dtype, bind, new, *at[:4])
    if steps is None:
        return False
    steps += gradient_steps(shape, dtype, new, at[4], at[3], at[1], at[5], at[6])
    runs.function_of(steps)(runs.places(*held))
    expected = *mean_of_losses(x, target, places, scale), gradient_of_mean(h, probs, target, scale, places)
    return all(map(np.array_equal, (loss, probs, out), expected))
