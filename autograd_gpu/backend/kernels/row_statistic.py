"""Statistics of the rows of a matrix in one launch: mean, 2-norm, sum without NaN, variance and standard deviation."""

from __future__ import annotations

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from .constants import THREADS
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import LONGEST_WALK, VECTOR, Launch, row_tiles, widest

FILE = "row_statistic.cu"
STATISTICS = {"mean": "Mean", "norm": "Norm", "nansum": "NanSum"}
LONGEST_ROW = LONGEST_WALK * THREADS  # elements, up to which one block for a row is enough


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        x, out = Parameter("x", "read", dtype), Parameter("out", "write", dtype)
        divisor, root = Parameter("divisor", "scalar", wide(dtype)), Parameter("root", "scalar", int32)
        means = Parameter("means", "write", dtype, True)
        for width in (VECTOR // dtype.itemsize, 1):
            unit = f"{name}, {width}"
            for functor in STATISTICS.values():
                declare(f"row_statistic<{functor}, {unit}>", FILE, "row_statistic", (x, out, *SIZE), unit=unit)
            parameters = (x, out, means, divisor, root, *SIZE)
            declare(f"row_variance<{unit}>", FILE, "row_variance", parameters, unit=unit)


_declare()


def _plan(label: str, x: Array) -> tuple[str, Launch, tuple[int, int]]:
    """The last template arguments, the launch shape, and the size of x (rows, cols)."""
    check_array(label, "x", x)
    rows, cols = x.shape
    if cols > LONGEST_ROW:
        raise ValueError(f"{label}: rows have at most {LONGEST_ROW} elements, not {cols}; sum them by row_sum")
    width = widest(cols, x.itemsize, x)
    return f"{c_name(label, x.dtype)}, {width}", row_tiles(rows, cols, width, x.itemsize, 1), (rows, cols)


def row_statistic(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """The mean, norm (2-norm) or nansum of each row of x (rows, cols), as an array of `shape` with `rows` elements.

    Half types are summed in float32, and the result is rounded once. ValueError for more columns than LONGEST_ROW.
    """
    label = f"row_{name}"
    types, tiles, size = _plan(label, x)
    out = runtime.cupy().empty(shape, x.dtype)
    launch(f"row_statistic<{STATISTICS[name]}, {types}>", tiles, x, out, *size, label=label)
    return out


def row_variance(
    x: Array, divisor: float, shape: tuple[int, ...], root: bool = False, with_mean: bool = False
) -> tuple[Array, Array | None]:
    """The sum of squared deviations of each row of x (rows, cols) over `divisor`, or its square root; and the means.

    Both are arrays of `shape`; the means are None unless asked for. Sums as in `row_statistic`.
    """
    types, tiles, size = _plan("row_variance", x)
    empty = runtime.cupy().empty
    out, means = empty(shape, x.dtype), empty(shape, x.dtype) if with_mean else None
    launch(f"row_variance<{types}>", tiles, x, out, means, divisor, root, *size)
    return out, means
