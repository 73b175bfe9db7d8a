"""Column sums of a matrix, such as the gradient of a bias."""

from __future__ import annotations

from ..arrays.dtypes import wide
from ..cuda import runtime
from .instances import declare_sums
from .launcher import Array, c_name, check_array, launch, size
from .tiles import sum_tiles, widest

declare_sums("column_sum")


def column_sum(x: Array, out: Array | None = None) -> Array:
    """The sum of x (..., cols) over all dimensions but the last: (cols,).

    Half types are summed in float32. Bitwise reproducible: the order of the additions depends on shape, dtype and
    alignment only. `out` has the dtype of x, else TypeError.
    """
    check_array("column_sum", "x", x)
    _, cols = size("column_sum", x.shape)
    out = runtime.cupy().empty((cols,), x.dtype) if out is None else out
    check_array("column_sum", "out", out, (cols,))
    if out.dtype != x.dtype:
        raise TypeError(f"column_sum: out must be {x.dtype} like x, not {out.dtype}")
    sum_columns(x, out, stages=2)
    return out


def sum_columns(x: Array, out: Array, stages: int) -> None:
    types = f"{c_name('column_sum', x.dtype)}, {c_name('column_sum', out.dtype)}"
    rows, cols = size("column_sum", x.shape)
    width = widest(cols, x.itemsize, x)
    shape = sum_tiles(rows, cols, width, x.itemsize, stages)
    parts = shape[0][1]
    partials = runtime.cupy().empty((parts, cols), wide(x.dtype)) if parts > 1 else None
    launch(f"column_sum<{types}, {width}>", shape, x, out, partials, rows, cols)
    if partials is not None:
        sum_columns(partials, out, stages=1)
