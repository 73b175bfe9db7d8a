"""The code of an update on NumPy arrays of one dtype: NumPy code, and machine code for lists of arrays."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays.dtypes import float32, float64
from ..formulas.native.lists import ListKernel, list_switch
from ..formulas.numpy_code import QUIET, executed, full
from ..formulas.numpy_source import BlockWriter, block_source
from ..formulas.update import Trace, Variant

CHUNK = 1 << 16  # elements; with fewer, call overhead exceeds the gain from the L2 cache
CALL = 1 << 11  # elements whose arithmetic takes as long as NumPy's calls: what a parameter counts for at least
FIRST = (0,)
_MAX_SHAPES = 256  # shapes kept per thread


class Scratch(threading.local):
    """Thread-local memory for intermediates: a new array above 128 KiB is mapped, page-faulted and unmapped each time.

    That takes longer than its arithmetic.
    """

    def __init__(self) -> None:
        self.memory: dict[tuple[np.dtype, int], np.ndarray] = {}
        self.views: dict[tuple[tuple[int, ...], np.dtype, int], list[np.ndarray]] = {}

    def like(self, shape: tuple[int, ...], dtype: np.dtype, count: int) -> list[np.ndarray]:
        """So many uninitialized arrays of at most CHUNK elements; the same ones at each call."""
        key = shape, dtype, count
        arrays = self.views.get(key)
        if arrays is None:
            if len(self.views) >= _MAX_SHAPES:
                self.views.clear()
            arrays = self.views[key] = [self._row(dtype, i, shape) for i in range(count)]
        return arrays

    def _row(self, dtype: np.dtype, i: int, shape: tuple[int, ...]) -> np.ndarray:
        if (dtype, i) not in self.memory:
            self.memory[dtype, i] = np.empty(CHUNK, dtype)
        return self.memory[dtype, i][: int(np.prod(shape))].reshape(shape)


SCRATCH = Scratch()
_BOOL = np.dtype(bool)


class Code:
    """The code of a trace; half types are computed in float32."""

    def __init__(self, trace: Trace, dtype: np.dtype) -> None:
        self.trace, self.dtype = trace, dtype
        self.program, self.replaced = trace.program, trace.places
        self.constants = tuple([np.asarray(c, dtype) for c in self.program.constants])
        writer = BlockWriter(self.program, self.replaced)
        self.block = executed(trace.label, block_source(writer), dtype, {})["block"]
        self.floats, self.flags = writer.floats.count, writer.flags.count  # scratch arrays
        self.wide = [a.place + (a.kind == "c") * len(self.program.numbers) for a in writer.wide]
        self.switch = list_switch(trace.label, self.program, self.replaced)

    def kernel(self, dtype: np.dtype, params: Sequence[np.ndarray]) -> ListKernel | None:
        """The machine code for arrays of this dtype, if it is there."""
        switch = self.switch
        if switch is None or not dtype.isnative:
            return None
        run: Any = switch.runs.get(dtype)
        elements = 0 if run is not None else sum([max(param.size, CALL) for param in params])
        return switch.kernel(dtype, elements)

    def numbers(self, numbers: Mapping[str, float]) -> tuple[np.ndarray, ...]:
        """The program's numbers and constants as 0-d arrays."""
        dtype = self.dtype
        values = self.trace.values(**numbers)
        arrays = QUIET.copy().run(_as_arrays, values, dtype)  # a number beyond float32 is infinite
        return (*arrays, *self.constants)

    def run(self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...]) -> None:
        """Updates arrays of one shape, of at most CHUNK elements, by NumPy code."""
        shape, dtype = arrays[0].shape, self.dtype
        scratch = SCRATCH.like(shape, dtype, self.floats) if self.floats else []
        if self.flags or self.wide:
            flags = SCRATCH.like(shape, _BOOL, self.flags)
            wide = [full(numbers[place].tobytes(), dtype)[: arrays[0].size].reshape(shape) for place in self.wide]
            scratch = [*scratch, *flags, *wide]
        replaced = arrays[:1] if self.replaced == FIRST else [arrays[place] for place in self.replaced]
        self.block(*arrays, *numbers, *replaced, *scratch)


def _as_arrays(values: Sequence[float], dtype: np.dtype) -> list[np.ndarray]:
    return [np.asarray(value, dtype) for value in values]


@functools.cache
def code_of(trace: Trace, dtype: np.dtype) -> Code:
    """The code of a trace for arrays of this dtype."""
    return Code(trace, float64 if dtype == float64 else float32)


class Ready(NamedTuple):
    """What runs an update: machine code, and the program's numbers in float64, for these numbers of the update."""

    given: tuple[float, ...]
    dtype: np.dtype
    trace: Trace
    kernel: ListKernel
    values: np.ndarray


_LAST: dict[Variant, Ready] = {}  # an update most often comes again with the same numbers, or the same trace


def machine_code(variant: Variant, numbers: Mapping[str, float], params: Sequence[np.ndarray]) -> Ready | None:
    """What runs an update of these parameters, if the machine code is there."""
    given, dtype, last = tuple(numbers.values()), params[0].dtype, _LAST.get(variant)
    if last is not None and last.dtype is not dtype:
        last = None
    if last is not None and last.given == given:
        return last
    trace = variant.trace(numbers)
    kernel = last.kernel if last is not None and last.trace is trace else code_of(trace, dtype).kernel(dtype, params)
    if kernel is None:
        return None
    ready = _LAST[variant] = Ready(given, dtype, trace, kernel, np.array(trace.values(**numbers), np.float64))
    return ready
