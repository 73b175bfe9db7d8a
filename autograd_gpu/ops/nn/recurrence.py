"""How recurrent layers walk through their rows.

The rows of all steps lie in one matrix: first those of step 0, a row per sequence, then those of step 1, and so on.
`sizes` has the number of rows of each step. It never increases, since the sequences are sorted by length: sequence i is
row i of each step that it reaches. With `reverse` the walk begins at the last step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.extend import expanded, moved
from .._support.blocks import BLOCK

Sizes = tuple[int, ...]


@functools.lru_cache(256)
def steps(sizes: Sizes, reverse: bool) -> tuple[slice, ...]:
    """The rows of each step, in the order of the walk."""
    rows, end = [], 0
    for size in sizes:
        rows.append(slice(end, end + size))
        end += size
    return tuple(reversed(rows) if reverse else rows)


@functools.lru_cache(256)
def blocks(sizes: Sizes, reverse: bool, cols: int) -> dict[int, slice]:
    """Rows of several steps, up to BLOCK elements in `cols` columns, by the first row of the first step of the walk."""
    spans: dict[int, slice] = {}
    first, low, high = -1, 0, 0
    for at in steps(sizes, reverse):
        if first < 0 or (max(high, at.stop) - min(low, at.start)) * cols > BLOCK:
            first, low, high = at.start, at.start, at.stop
        low, high = min(low, at.start), max(high, at.stop)
        spans[first] = slice(low, high)
    return spans


class Carried:
    """A state with a row per sequence, carried from step to step; sequences begin and end on the way.

    `rows` are those after the last step. `initial` has the first state of each sequence; None means zeros like `like`.
    """

    def __init__(self, F: Any, initial: Any, like: Any = None) -> None:
        initial = F.constant_like(like, 0.0) if initial is None else initial
        self.F, self.initial = F, initial
        self.rows = F.basic_index(initial, slice(0, 0))
        self.ended: list[Any] = []

    def enter(self, count: int) -> Any:
        """The rows with which a step of `count` sequences begins."""
        rows = self.rows
        before = rows.shape[0]
        if before == count:
            return rows
        F = self.F
        if before > count:
            self.ended.append(F.basic_index(rows, slice(count, before)))
            return F.basic_index(rows, slice(0, count))
        new = F.basic_index(self.initial, slice(before, count))
        return F.cat([rows, new]) if before else new

    def final(self) -> Any:
        """The last state of each sequence."""
        return self.F.cat([self.rows, *reversed(self.ended)]) if self.ended else self.rows


def preceding(F: Any, initial: Any, rows: Any, sizes: Sizes, reverse: bool) -> list[Any]:
    """The states with which each step begins, in the order of the walk: `rows` has the states of all steps."""
    state, states = Carried(F, initial), []
    for at in steps(sizes, reverse):
        states.append(state.enter(at.stop - at.start))
        state.rows = F.basic_index(rows, at)
    return states


def joined(F: Any, parts: Sequence[Any], reverse: bool) -> Any:
    """The parts of all steps, given in the order of the walk, as one matrix."""
    return F.cat(list(reversed(parts) if reverse else parts))


def columns(F: Any, x: Any, count: int) -> list[Any]:
    """x (rows, count * n) as `count` matrices (rows, n)."""
    n = x.shape[-1] // count
    return [F.basic_index(x, (..., slice(k * n, (k + 1) * n))) for k in range(count)]


def folded(F: Any, n: int, batched: Sequence[bool], matrices: Sequence[Any], run: Callable[..., Any]) -> Any:
    """run(*matrices) for n examples at once, each of which is a sequence of its own: row i of all examples together."""
    outs = run(*[
        F.reshape(moved(F, x, 0, 1), (x.shape[1] * n, x.shape[2])) for x in expanded(F, n, batched, matrices)
    ])  # fmt: skip
    return tuple([moved(F, F.reshape(out, (out.shape[0] // n, n, out.shape[1])), 1, 0) for out in outs])


def times(sizes: Sizes, n: int) -> Sizes:
    """The sizes of the steps for n examples."""
    return tuple([size * n for size in sizes])


def narrowed(dtype: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays in `dtype`."""
    return tuple([x if x is None else x.astype(dtype, copy=False) for x in arrays])
