"""Groups of compiled calls: one launch computes the outputs of a joined program from arrays of one size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.dtypes import int64
from ..cuda import runtime
from ..formulas import cuda_code
from ..formulas.cuda_code import Functor
from ..formulas.lowering import Program
from .constants import THREADS
from .functors import Declared, declare_unit
from .instances import C_NAMES, Parameter
from .launcher import Array, aligned, contiguous, launch
from .tiles import MOST_PARTS, VECTOR

FILE = "group.cu"
MOST_IN_GROUP = 12  # of a launch: with 16-byte strips of more, the compiler spills registers


@functools.cache
def addresses_parameter(count: int) -> Parameter:
    """The parameter for the addresses of so many arrays."""
    return Parameter("arrays", "struct", np.dtype([("at", np.uint64, (count,))]))


def declare_group(functor: Functor, dtype: np.dtype, width: int) -> str:
    """The instance of a functor, which is declared when it is first asked for; `width` elements are moved at once."""
    types = f"{functor.name}, {C_NAMES[dtype]}, {width}"
    parameters = addresses_parameter(functor.inputs + functor.outputs), Parameter("size", "scalar", int64)
    declare_unit(FILE, types, [Declared(functor, f"group<{types}>", "group", parameters)])
    return f"group<{types}>"


def group_shape(size: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block: a strip for each thread, as long as the grid has room."""
    return (min(-(-size // (width * THREADS)), MOST_PARTS), 1), (THREADS, 1)


def group(functor: Functor, arrays: Sequence[Array], outs: Sequence[Array | None]) -> list[Array]:
    """The outputs for arrays of one shape and dtype, the last of which may have one element. None is a new array."""
    arrays, x = [contiguous(a) for a in arrays], arrays[0]
    results = [runtime.cupy().empty(x.shape, x.dtype) if out is None else out for out in outs]
    width = VECTOR // x.dtype.itemsize
    large = [a for a in (*arrays, *results) if a.size == x.size]
    width = width if x.size % width == 0 and aligned(*large) else 1
    packed = np.zeros((1,), addresses_parameter(len(arrays) + len(results)).dtype)
    packed["at"][0] = [a.data.ptr for a in (*arrays, *results)]
    launch(declare_group(functor, x.dtype, width), group_shape(x.size, width), packed, x.size, label="group")
    return results


class GroupKernel:
    """The code of a group for CuPy arrays: inputs, then `scalars` arrays of one element.

    `out` has an array, or None, for each output.
    """

    def __init__(self, program: Program, scalars: int) -> None:
        self.functor = cuda_code.group(program, scalars)

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, *arrays: Array, out: Sequence[Array | None] | None = None) -> Any:
        results = group(self.functor, arrays, out or (None,) * self.functor.outputs)
        return results[0] if len(results) == 1 else results
