"""Elements at indices along one dimension, of any dtype."""

from __future__ import annotations

import math

from ..arrays.dtypes import int64, uint8, uint16, uint32, uint64
from ..cuda import runtime
from .constants import THREADS
from .instances import Parameter, declare
from .launcher import Array, check_array, launch

BITS = {1: (uint8, "unsigned char"), 2: (uint16, "unsigned short"), 4: (uint32, "unsigned int"),
        8: (uint64, "unsigned long long")}  # fmt: skip
MOST_BLOCKS = 1 << 16


def _declare() -> None:
    numbers = tuple(Parameter(name, "scalar", int64) for name in ("size", "inner", "count", "total"))
    for bits, name in BITS.values():
        arrays = Parameter("x", "read", bits), Parameter("index", "read", int64), Parameter("out", "write", bits)
        declare(f"gather<{name}>", "gather.cu", "gather", (*arrays, *numbers), unit=name)


_declare()


def gather(x: Array, index: Array, dim: int) -> Array:
    """x[i][index[i][j]] for dim = -1, and so for any dimension < 0; x and index are alike in all others.

    Negative indices count from the end; others that are out of range wrap around. ValueError for other shapes.
    """
    check_array("gather", "x", x)
    check_array("gather", "index", index)
    if not suits_gather(x, index, dim):
        raise ValueError(f"gather: x {x.shape} and index {index.shape} must be alike in all dimensions but {dim}, "
                         f"index must be int64, not {index.dtype}, and x not empty")
    inner = index.shape[index.ndim + dim + 1 :]
    bits, name = BITS[x.itemsize]
    out = runtime.cupy().empty(index.shape, x.dtype)
    arrays = x.view(bits), index, out.view(bits)
    shape = (min(-(-index.size // THREADS), MOST_BLOCKS), 1), (THREADS, 1)
    launch(f"gather<{name}>", shape, *arrays, x.shape[dim], math.prod(inner), index.shape[dim], index.size)
    return out


def suits_gather(x: Array, index: Array, dim: int) -> bool:
    """Whether `gather` takes these arrays: `index` is as large as x in all dimensions but `dim`."""
    alike = x.ndim == index.ndim and index.dtype == int64 and x.itemsize in BITS and bool(x.size)
    lead, inner = slice(None, dim), slice(index.ndim + dim + 1, None)
    return alike and x.shape[lead] == index.shape[lead] and x.shape[inner] == index.shape[inner]
