"""Groups of compiled calls that end in sums: over the rows of a matrix, or over all of few elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays.dtypes import int64, wide
from ..cuda import runtime
from ..formulas import cuda_code
from ..formulas.cuda_code import Functor
from .column_sum import sum_columns
from .constants import THREADS
from .functors import Declared, declare_unit
from .group import GroupKernel, addresses_parameter, packed_arrays, readable, widest_strip
from .instances import C_NAMES, SIZE, Parameter
from .launcher import Array, launch
from .tiles import LONGEST_WALK, VECTOR, sum_tiles

FILE = "group_sums.cu"
MOST_SUMS = 2  # of a launch: their partial sums are registers
MOST_WITH_SUMS = 9  # arrays and sums of a launch: with more, the compiler spills registers


def declare_group_sums(functor: Functor, dtype: np.dtype, width: int, by_column: bool) -> str:
    """The instance of a functor, which is declared when it is first asked for."""
    kernel = "group_column_sums" if by_column else "group_totals"
    types = f"{functor.name}, {C_NAMES[dtype]}, {width}"
    addresses, w = addresses_parameter(functor.inputs + functor.outputs, functor.strided), wide(dtype)
    own = Parameter("partials", "write", w, optional=True) if by_column else Parameter("divisor", "scalar", w)
    size = SIZE if by_column else (Parameter("size", "scalar", int64),)
    declare_unit(FILE, f"{kernel}, {types}", [Declared(functor, f"{kernel}<{types}>", kernel, (addresses, own, *size))])
    return f"{kernel}<{types}>"


def suits_total(shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether one block computes the sum over all elements of this shape."""
    return 0 < math.prod(shape) <= LONGEST_WALK * THREADS * (VECTOR // itemsize)


class SummingKernel:
    """The code of a group whose last results are summed, `sums` of them: over rows `by_column`, or over all elements.

    kernel: of the group without sums. written, summed: the numbers of its results that are written, and summed. A sum
    over all elements is divided by `divisor`, and has the shape ().
    """

    def __init__(
        self, kernel: GroupKernel, written: Sequence[int], summed: Sequence[int], by_column: bool, divisor: int = 1
    ) -> None:
        outputs = kernel.program.outputs
        program = replace(kernel.program, outputs=tuple([outputs[k] for k in (*written, *summed)]))
        before = kernel.functor
        self.functor = cuda_code.group(program, before.strided, before.scalars, len(summed))
        self.shape, self.by_column, self.divisor = kernel.shape, by_column, divisor

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, *arrays: Array, out: Sequence[Array | None] | None = None) -> Any:
        f, shape, empty = self.functor, self.shape, runtime.cupy().empty
        dtype, cols = arrays[0].dtype, shape[-1] if shape else 1
        stored = f.outputs - f.sums
        own = readable(f, arrays, shape)
        targets = [None] * f.outputs if out is None else out
        written = [empty(shape, dtype) if target is None else target for target in targets[:stored]]
        of_sum = (cols,) if self.by_column else ()
        sums = [empty(of_sum, dtype) if target is None else target for target in targets[stored:]]
        size = math.prod(shape)
        width = widest_strip(cols if self.by_column else size, f, own, written)
        instance = declare_group_sums(f, dtype, width, self.by_column)
        packed = packed_arrays(f, own, [*written, *sums], shape)
        if self.by_column:
            self._by_column(instance, packed, sums, (size // cols, cols), width)
        else:
            launch(instance, ((1, 1), (THREADS, 1)), packed, self.divisor, size, label="group")
        results = [*written, *sums]
        return results[0] if len(results) == 1 else results

    def _by_column(
        self, instance: str, packed: np.ndarray, sums: Sequence[Array], size: tuple[int, int], width: int
    ) -> None:
        """Launches it, and the sums of partial sums where it takes several parts."""
        (rows, cols), dtype = size, sums[0].dtype
        tiles = sum_tiles(rows, cols, width, dtype.itemsize)
        parts = tiles[0][1]
        partials = runtime.cupy().empty((len(sums), parts, cols), wide(dtype)) if parts > 1 else None
        launch(instance, tiles, packed, partials, rows, cols, label="group")
        if partials is not None:
            for partial, target in zip(partials, sums, strict=True):
                sum_columns(partial, target, stages=1)
