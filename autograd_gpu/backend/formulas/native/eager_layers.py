"""Layers that eager code has put off (cpu/chains.py) as native code, after calls with such layers were seen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...cpu import large_products
from . import runs
from .layers import SHARED_BYTES, Part, Rows, Scratch, by_tasks, ends_of_part, packed_weight, tasks
from .loops import Unfit
from .runs import MOST_ARRAYS, Place

FREQUENT = 3  # calls with such layers, after which they have native code


class Kind(Protocol):
    """What layers have in common that differ by the content of their arrays alone: one object for all of them."""

    def part(self, arrays: Arrays) -> Part:
        """The layer with its arrays as matrices, and stacks of them; Unfit if it has no native code."""
        ...


Arrays = Sequence[np.ndarray | None]


class Described(NamedTuple):
    """A layer that is put off: its kind, and its arrays, with any leading dimensions, in the order of its part."""

    kind: Kind
    arrays: Arrays


def stacked(x: Any, height: int) -> Any:
    """x (S, ..., h) as (S, height, h), also if it is the same in all rows; None for None."""
    if x is None:
        return None
    stack = x.reshape(len(x), math.prod(x.shape[1:-1]), x.shape[-1])
    return stack if stack.shape[1] == height else np.broadcast_to(stack, (len(stack), height, stack.shape[2]))


class _Run:
    """Native code for layers of some kinds; Unfit if there is none."""

    def __init__(self, layers: Sequence[Part], steps: Sequence[int]) -> None:
        height, parts_of_k = layers[0].before.shape[1], [*map(ends_of_part, layers, steps)]
        weights = [x.b.size for x, ends in zip(layers, parts_of_k, strict=True) if x.b is not None and ends is None]
        nbytes = [x.row_bytes() for x in layers]
        many = large_products.are_shared() and height * sum(nbytes) >= SHARED_BYTES
        parts = tasks(height, max(nbytes), max(weights, default=0), many or min(steps) < height)
        windows = [window for task in parts for window in task]
        for x, step, ends in zip(layers, steps, parts_of_k, strict=True):
            if not x.fits(step, windows, ends is not None):
                raise Unfit
        self.fixed = [number for x in layers for number in x.numbers]
        statics, scratch = itertools.count(MOST_ARRAYS), Scratch(MOST_ARRAYS + len(self.fixed))
        arrays, placed, first, new = itertools.count(), list[Part](), list[list[int]](), scratch.of(-1)
        for x, ends in zip(layers, parts_of_k, strict=True):
            numbers = tuple([Place(next(statics)) for _ in x.numbers])
            a, b, *others = [None if y is None else Rows(Place(next(arrays)), y) for y in x[2:]]
            if ends is None or b is None:
                placed.append(type(x)(x.kernel, numbers, a, b, *others))
            else:
                packing, weight = packed_weight(b, ends, new)
                first.append(packing)
                placed.append(type(x)(x.kernel, numbers, a, weight, *others))
        self._run = by_tasks(first, [
            [step for window in windows for x in placed for step in x.steps(window, height, scratch.of(task))]
            for task, windows in enumerate(parts)
        ])  # fmt: skip
        self.scratch = scratch
        self.frames: list[tuple[np.ndarray, list[np.ndarray]]] = []  # places and memory, of one call at a time

    def __call__(self, layers: Sequence[Described]) -> None:
        frame = self.frames.pop() if self.frames else self._new_frame()
        self._run(frame[0], *[x for layer in layers for x in layer.arrays if x is not None])
        self.frames.append(frame)

    def _new_frame(self) -> tuple[np.ndarray, list[np.ndarray]]:
        memory = self.scratch.arrays()
        return runs.places(*self.fixed, *memory), memory


# By kinds: how often they were seen; then their runs, each with the number behind its last layer, or none.
_RUNS: dict[Any, Any] = {}
_MOST_RUNS = 256


def compute(layers: Sequence[Described], steps: Sequence[int]) -> bool | None:
    """Whether native code has computed layers, whose blocks have so many rows in NumPy code; None if it may later."""
    key = large_products.sharing(), *steps, *[layer.kind for layer in layers]
    known = _RUNS.get(key, 0)
    if type(known) is int:
        if len(_RUNS) >= _MOST_RUNS:
            _RUNS.clear()
        known += 1
        _RUNS[key] = known if known < FREQUENT else _made(layers, steps)
        return None
    begin = 0
    for run, end in known:
        run(layers[begin:end])
        begin = end
    return bool(known)


def _made(layers: Sequence[Described], steps: Sequence[int]) -> list[tuple[_Run, int]]:
    """The runs of layers, as few as can be; none if there is no native code."""
    made, begin = list[tuple[_Run, int]](), 0
    counts = [sum([x is not None for x in layer.arrays]) for layer in layers]
    try:
        parts = [layer.kind.part(layer.arrays) for layer in layers]
        if not parts[0].before.size or not runs.are_there():
            return []
        for end in range(1, len(layers) + 1):
            if end == len(layers) or sum(counts[begin : end + 1]) > MOST_ARRAYS:
                made.append((_Run(parts[begin:end], steps[begin:end]), end))
                begin = end
    except Unfit:
        return []
    return made
