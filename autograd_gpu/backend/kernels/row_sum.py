"""Row sums of a matrix."""

from __future__ import annotations

import math

from ..arrays.dtypes import wide
from ..cuda import runtime
from .instances import declare_sums
from .launcher import Array, c_name, check_array, launch
from .tiles import row_tiles, widest

declare_sums("row_sum")


def row_sum(x: Array, out: Array | None = None) -> Array:
    """The sum of x (..., cols) over its last dimension: (...).

    Half types are summed in float32. Bitwise reproducible: the order of the additions depends on shape, dtype and
    alignment only. `out` has the dtype of x, else TypeError.
    """
    check_array("row_sum", "x", x)
    if not x.ndim:
        raise ValueError("row_sum: an array without dimensions has no rows; reshape it")
    out = runtime.cupy().empty(x.shape[:-1], x.dtype) if out is None else out
    check_array("row_sum", "out", out, x.shape[:-1])
    if out.dtype != x.dtype:
        raise TypeError(f"row_sum: out must be {x.dtype} like x, not {out.dtype}")
    _row_sum(x, out, stages=2)
    return out


def _row_sum(x: Array, out: Array, stages: int) -> None:
    types = f"{c_name('row_sum', x.dtype)}, {c_name('row_sum', out.dtype)}"
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    width = widest(cols, x.itemsize, x)
    shape = row_tiles(rows, cols, width, x.itemsize, stages)
    parts = shape[0][1]
    partials = runtime.cupy().empty((rows, parts), wide(x.dtype)) if parts > 1 else None
    launch(f"row_sum<{types}, {width}>", shape, x, out, partials, rows, cols)
    if partials is not None:
        _row_sum(partials, out, stages=1)
