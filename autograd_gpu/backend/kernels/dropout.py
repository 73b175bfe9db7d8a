"""Dropout whose mask is regenerated from its Philox counters at each use, and never stored."""

from __future__ import annotations

from ..arrays.dropout_mask import Mask, threshold
from ..arrays.dtypes import int64, wide
from ..cuda import runtime
from .instances import C_NAMES, COUNTERS, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .random import words_of
from .tiles import VECTOR, row_tiles, tiles, widest


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        arrays = Parameter("x", "read", dtype), Parameter("out", "write", dtype)
        numbers = [Parameter(param, "scalar", wide(dtype)) for param in ("scale", "shift", "dropped")]
        common = (*arrays, *COUNTERS, Parameter("threshold", "scalar", int64), *numbers)
        period = Parameter("period", "scalar", int64)
        kernels = {"dropout": (*common, *SIZE), "channel_dropout": (*common, period, *SIZE)}
        for width in (VECTOR // dtype.itemsize, 1):
            for kernel, parameters in kernels.items():
                declare(f"{kernel}<{name}, {width}>", "dropout.cu", kernel, parameters, unit=f"{name}, {width}")


_declare()


def dropout(
    x: Array, mask: Mask, scale: float, shift: float = 0.0, dropped: float = 0.0, out: Array | None = None
) -> Array:
    """x * scale + shift where the mask is true, else `dropped`; `out` may be `x`.

    A mask with fewer elements than x repeats. The gradient for x is `dropout` of the result's gradient with the same
    mask and scale. ValueError if the size of x is not a multiple of the mask's.
    """
    check_array("dropout", "x", x)
    c_type, itemsize = c_name("dropout", x.dtype), x.itemsize
    out = runtime.cupy().empty(x.shape, x.dtype) if out is None else out
    check_array("dropout", "out", out, x.shape)
    length = mask.count * mask.per_bit
    times, rest = divmod(x.size, length) if length else (0, x.size)
    if rest:
        raise ValueError(f"dropout: a mask of {mask.count} * {mask.per_bit} elements does not fit x of shape {x.shape}")
    arguments = (x, out, *words_of(mask.seed, mask.start), threshold(mask.keep), scale, shift, dropped)
    if mask.per_bit == 1:
        width, group = widest(mask.count, itemsize, x, out), max(VECTOR // itemsize, 4)
        shape = tiles(times, -(-mask.count // group) * group, group, itemsize)
        launch(f"dropout<{c_type}, {width}>", shape, *arguments, times, mask.count)
    else:
        width, rows = widest(mask.per_bit, itemsize, x, out), times * mask.count
        shape = row_tiles(rows, mask.per_bit, width, itemsize)
        launch(f"channel_dropout<{c_type}, {width}>", shape, *arguments, mask.count, rows, mask.per_bit)
    return out
