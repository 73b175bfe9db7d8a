"""Groups of compiled calls that end in sums, maxima or minima: over the rows of a matrix, along rows, or over all of
few elements."""

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
from .tiles import LONGEST_WALK, VECTOR, row_tiles, sum_tiles

FILE = "group_sums.cu"
KERNELS = {"columns": "group_column_sums", "rows": "group_row_sums", "all": "group_totals"}
JOINS = {"sum": "Added", "amax": "Largest", "amin": "Smallest"}  # by op
MOST_SUMS = 2  # of a launch: their partial sums are registers
MOST_WITH_SUMS = 9  # arrays and sums of a launch: with more, the compiler spills registers


def declare_group_sums(functor: Functor, dtype: np.dtype, width: int, along: str, op: str = "sum") -> str:
    """The instance of a functor, which is declared when it is first asked for; `along` is one of KERNELS, `op` of
    JOINS."""
    types = f"{functor.name}, {JOINS[op]}, {C_NAMES[dtype]}, {width}"
    addresses, w = addresses_parameter(functor.inputs + functor.outputs, functor.strided), wide(dtype)
    divisor = Parameter("divisor", "scalar", w)
    own = {
        "columns": (Parameter("partials", "write", w, optional=True), *SIZE), "rows": (divisor, *SIZE),
        "all": (divisor, Parameter("size", "scalar", int64)),
    }[along]  # fmt: skip
    name = KERNELS[along]
    declare_unit(FILE, f"{name}, {types}", [Declared(functor, f"{name}<{types}>", name, (addresses, *own))])
    return f"{name}<{types}>"


def suits_sum(along: str, shape: tuple[int, ...], itemsize: int, op: str = "sum") -> bool:
    """Whether one launch computes sums of arrays of this shape, but for partial sums of columns; maxima have none."""
    if not math.prod(shape):
        return False
    if along == "columns" and op != "sum":
        rows, cols = shape
        width = VECTOR // itemsize
        return sum_tiles(rows, cols, width if cols % width == 0 else 1, itemsize)[0][1] == 1
    length = {"columns": 0, "rows": shape[-1] if shape else 1, "all": math.prod(shape)}[along]
    return length <= LONGEST_WALK * THREADS * (VECTOR // itemsize if length % (VECTOR // itemsize) == 0 else 1)


class SummingKernel:
    """The code of a group whose last results are summed: of "columns" over rows, along "rows", or over "all" elements.

    kernel: of the group without sums. written, summed: the numbers of its results that are written, and summed. shapes:
    those of the sums. Sums along rows and of all are divided by `divisor`. `op` is "sum", "amax" or "amin", which make
    maxima and minima in place of sums.
    """

    def __init__(
        self, kernel: GroupKernel, written: Sequence[int], summed: Sequence[int], along: str,
        shapes: Sequence[tuple[int, ...]], divisor: int = 1, op: str = "sum",
    ) -> None:  # fmt: skip
        outputs, before = kernel.program.outputs, kernel.functor
        program = replace(kernel.program, outputs=tuple([outputs[k] for k in (*written, *summed)]))
        self.functor = cuda_code.group(program, before.strided, before.scalars, len(summed))
        self.shape, self.along, self.shapes, self.divisor, self.op = kernel.shape, along, shapes, divisor, op

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, *arrays: Array, out: Sequence[Array | None] | None = None) -> Any:
        f, shape, empty = self.functor, self.shape, runtime.cupy().empty
        dtype, own = arrays[0].dtype, readable(f, arrays, shape)
        shapes = [*[shape] * (f.outputs - f.sums), *self.shapes]
        targets = [None] * f.outputs if out is None else out
        results = [empty(s, dtype) if target is None else target for s, target in zip(shapes, targets, strict=True)]
        written, sums = results[: -f.sums], results[-f.sums :]
        size, cols = math.prod(shape), shape[-1] if shape else 1
        width = widest_strip(size if self.along == "all" else cols, f, own, written)
        instance = declare_group_sums(f, dtype, width, self.along, self.op)
        packed = packed_arrays(f, own, results, shape)
        rows = size // cols
        if self.along == "columns":
            _of_columns(instance, packed, sums, (rows, cols), width, stages=2 if self.op == "sum" else 1)
        elif self.along == "rows":
            tiles = row_tiles(rows, cols, width, dtype.itemsize, stages=1)
            launch(instance, tiles, packed, self.divisor, rows, cols, label="group")
        else:
            launch(instance, ((1, 1), (THREADS, 1)), packed, self.divisor, size, label="group")
        return results[0] if len(results) == 1 else results


def _of_columns(
    instance: str, packed: np.ndarray, sums: Sequence[Array], size: tuple[int, int], width: int, stages: int
) -> None:
    """Launches it, and the sums of partial sums where it takes several parts."""
    (rows, cols), dtype = size, sums[0].dtype
    tiles = sum_tiles(rows, cols, width, dtype.itemsize, stages)
    parts = tiles[0][1]
    partials = runtime.cupy().empty((len(sums), parts, cols), wide(dtype)) if parts > 1 else None
    launch(instance, tiles, packed, partials, rows, cols, label="group")
    if partials is not None:
        for partial, target in zip(partials, sums, strict=True):
            sum_columns(partial, target, stages=1)
