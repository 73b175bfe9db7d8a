"""Groups of compiled calls: one launch computes the outputs of a joined program from arrays of one size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
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
def addresses_parameter(count: int, strided: int) -> Parameter:
    """The parameter for the addresses of so many arrays, and the strides of those that are not dense."""
    fields = [("at", np.uint64, (count,)), ("cols", np.int64), ("strides", np.int64, (2 * strided + 1,))]
    return Parameter("arrays", "struct", np.dtype(fields))


def declare_group(functor: Functor, dtype: np.dtype, width: int) -> str:
    """The instance of a functor, which is declared when it is first asked for; `width` elements are moved at once."""
    types = f"{functor.name}, {C_NAMES[dtype]}, {width}"
    addresses = addresses_parameter(functor.inputs + functor.outputs, functor.strided)
    parameters = addresses, Parameter("size", "scalar", int64)
    declare_unit(FILE, types, [Declared(functor, f"group<{types}>", "group", parameters)])
    return f"group<{types}>"


def group_shape(size: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block: a strip for each thread, as long as the grid has room."""
    return (min(-(-size // (width * THREADS)), MOST_PARTS), 1), (THREADS, 1)


@functools.lru_cache(4096)
def row_and_column(strides: tuple[int, ...], own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The bytes from row to row and from column to column of an array with the shape `own`, broadcast to `shape`.

    The last dimension is that of the columns; None if there is no one step from each row to the next.
    """
    missing = len(shape) - len(own)
    steps = [0 if n == 1 else step for n, step in zip((1,) * missing + own, (0,) * missing + strides, strict=True)]
    rows = [(n, step) for n, step in zip(shape[:-1], steps[:-1], strict=True) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(rows)):
        return None
    return rows[-1][1] if rows else 0, steps[-1]


def packed_arrays(
    functor: Functor, arrays: Sequence[Array], results: Sequence[Array], shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """What the kernel reads of its arrays; those that are read are dense, strided, then of one element.

    `shape` is that of what is computed, by default that of the first result.
    """
    shape, itemsize = (results[0].shape if shape is None else shape) or (1,), results[0].itemsize
    packed = np.zeros((1,), addresses_parameter(len(arrays) + len(results), functor.strided).dtype)
    packed["at"][0] = [a.data.ptr for a in (*arrays, *results)]
    packed["cols"] = shape[-1]
    first = len(arrays) - functor.scalars - functor.strided
    for k, a in enumerate(arrays[first : first + functor.strided]):
        steps = row_and_column(a.strides, a.shape, shape)
        packed["strides"][0, 2 * k : 2 * k + 2] = [step // itemsize for step in steps or ()]
    return packed


def group(
    functor: Functor, arrays: Sequence[Array], outs: Sequence[Array | None], shape: tuple[int, ...]
) -> list[Array]:
    """The outputs, of `shape`, for arrays of one dtype: dense ones of that shape, strided ones that broadcast to it,
    and some of one element. None is a new array."""
    x, arrays = arrays[0], readable(functor, arrays, shape)
    results = [runtime.cupy().empty(shape, x.dtype) if out is None else out for out in outs]
    size = results[0].size
    width = widest_strip(size, functor, arrays, results)
    instance, packed = declare_group(functor, x.dtype, width), packed_arrays(functor, arrays, results)
    launch(instance, group_shape(size, width), packed, size, label="group")
    return results


def readable(functor: Functor, arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """The arrays as a kernel takes them: the first ones dense, the others by rows and columns."""
    dense = len(arrays) - functor.scalars - functor.strided
    return [contiguous(a) if k < dense else _with_rows(runtime.cupy(), a, shape) for k, a in enumerate(arrays)]


def widest_strip(size: int, functor: Functor, arrays: Sequence[Array], results: Sequence[Array]) -> int:
    """The elements that a thread moves at once: 16 bytes' worth if `size`, of a row or of all, and addresses allow."""
    width, dense = VECTOR // arrays[0].dtype.itemsize, len(arrays) - functor.scalars - functor.strided
    return width if size % width == 0 and aligned(*arrays[:dense], *results) else 1


def _with_rows(xp: Any, a: Array, shape: tuple[int, ...]) -> Array:
    """An array that the kernel can read by rows and columns: itself, or a copy."""
    readable = a.size == 1 or row_and_column(a.strides, a.shape, shape or (1,)) is not None
    return a if readable else xp.ascontiguousarray(xp.broadcast_to(a, shape))


class GroupKernel:
    """The code of a group for CuPy arrays: inputs, `strided` and then `scalars` of which are the last ones.

    `out` has an array, or None, for each output.
    """

    def __init__(self, program: Program, strided: int, scalars: int, shape: tuple[int, ...]) -> None:
        self.program, self.shape = program, shape
        self.functor = cuda_code.group(program, strided, scalars)

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, *arrays: Array, out: Sequence[Array | None] | None = None) -> Any:
        results = group(self.functor, arrays, out or (None,) * self.functor.outputs, self.shape)
        return results[0] if len(results) == 1 else results
