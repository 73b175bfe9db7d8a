"""Layer norm and RMS norm over the last dimensions, and their gradients.

The statistics, one number per row, have the accumulation dtype: float32 for half types.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from .column_sum import sum_columns
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import VECTOR, held, row_turns, sum_tiles, widest

FILE = "layer_norm.cu"
BLOCKS = 2  # of layer_norm_backward per multiprocessor, by its registers: more would run in a second wave
Gradients = tuple[Array | None, Array | None, Array | None]


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        g, x = Parameter("g", "read", dtype), Parameter("x", "read", dtype)
        weight, bias = Parameter("weight", "read", dtype, True), Parameter("bias", "read", dtype, True)
        mean, rstd = Parameter("mean", "read", wide(dtype), True), Parameter("rstd", "read", wide(dtype))
        stats = Parameter("mean", "write", wide(dtype), True), Parameter("rstd", "write", wide(dtype))
        sums = (
            Parameter("dweight", "write", dtype, True), Parameter("dbias", "write", dtype, True),
            Parameter("partials", "write", wide(dtype), True),
        )  # fmt: skip
        parts, known = Parameter("found", "write", wide(dtype)), Parameter("found", "read", wide(dtype), True)
        kernels = {
            "layer_norm": (x, weight, bias, known, Parameter("out", "write", dtype), *stats,
                           Parameter("eps", "scalar", wide(dtype)), *SIZE),
            "layer_norm_backward": (g, x, weight, mean, rstd, known, Parameter("dx", "write", dtype), *sums, *SIZE),
            "layer_norm_parameters": (g, x, mean, rstd, *sums, *SIZE),
        }  # fmt: skip
        first = {  # compiled separately, since few programs need them
            "layer_norm_parts": (x, parts, Parameter("centered", "scalar", int32), *SIZE),
            "layer_norm_backward_parts": (g, x, weight, mean, rstd, parts, *SIZE),
        }
        for width in (VECTOR // dtype.itemsize, 1):
            types = f"{name}, {width}"
            for kernel, parameters in (kernels | first).items():
                unit = f"{types}, in parts" if kernel in first else types
                declare(f"{kernel}<{types}>", FILE, kernel, parameters, unit=unit)


_declare()


# ---- forward -----------------------------------------------------------------------------------------


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5, dims: int = 1
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last `dims` dimensions, and mean and rstd with size 1 in them.

    weight and bias have the shape of those dimensions, or are None. rstd = 1 / sqrt(variance + eps).
    """
    mean = runtime.cupy().empty(_extent("layer_norm", x, dims)[2], wide(x.dtype))
    out, rstd = _forward("layer_norm", x, weight, bias, mean, eps, dims)
    return out, mean, rstd


def rms_norm(x: Array, weight: Array | None = None, eps: float = 1e-5, dims: int = 1) -> tuple[Array, Array]:
    """x * rstd * weight over the last `dims` dimensions, and rstd = 1 / sqrt(mean(x * x) + eps) with size 1 in them."""
    return _forward("rms_norm", x, weight, None, None, eps, dims)


def _forward(
    label: str, x: Array, weight: Array | None, bias: Array | None, mean: Array | None, eps: float, dims: int
) -> tuple[Array, Array]:
    rows, cols, kept = _extent(label, x, dims, weight=weight, bias=bias)
    c_type, xp = c_name(label, x.dtype), runtime.cupy()
    out, rstd = xp.empty(x.shape, x.dtype), xp.empty(kept, wide(x.dtype))
    width = widest(cols, x.itemsize, x, weight, bias, out)
    types, multiprocessors = f"{c_type}, {width}", runtime.multiprocessors(x.data.device_id)
    shape = row_turns(rows, cols, width, x.itemsize, multiprocessors=multiprocessors)
    parts, stats = shape[0][1], None
    if parts > 1:
        stats = xp.empty((rows, parts, 3), wide(x.dtype))
        launch(f"layer_norm_parts<{types}>", shape, x, stats, mean is not None, rows, cols, label=f"{label}_parts")
    launch(f"layer_norm<{types}>", shape, x, weight, bias, stats, out, mean, rstd, eps, rows, cols, label=label)
    return out, rstd


def _extent(label: str, x: Array, dims: int, **vectors: Array | None) -> tuple[int, int, tuple[int, ...]]:
    """Rows, columns, and the shape of the statistics; checks that `vectors` have the last `dims` dimensions of x."""
    check_array(label, "x", x)
    if not 0 < dims <= x.ndim:
        raise ValueError(f"{label}: {dims} dimension(s) are normalised, but x has {x.ndim}; reshape it")
    for name, vector in vectors.items():
        if vector is not None:
            check_array(label, name, vector, x.shape[-dims:])
    return math.prod(x.shape[:-dims]), math.prod(x.shape[-dims:]), x.shape[:-dims] + (1,) * dims


# ---- backward ----------------------------------------------------------------------------------------


def layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, need: tuple[bool, ...] = (True, True, True),
    dims: int = 1,
) -> Gradients:  # fmt: skip
    """The gradients of `layer_norm` for x, weight and bias, given the gradient g of its result; `need` selects them.

    Those of weight and bias are summed in float32 or wider, bitwise reproducibly: the order depends on shape, dtype,
    alignment and the GPU's number of multiprocessors only. They need no extra pass unless rows exceed what a block
    holds in registers.
    """
    check_array("layer_norm", "mean", mean, _extent("layer_norm", x, dims)[2])
    return _backward("layer_norm", g, x, weight, mean, rstd, need, dims)


def rms_norm_backward(
    g: Array, x: Array, weight: Array | None, rstd: Array, need: tuple[bool, ...] = (True, True), dims: int = 1
) -> tuple[Array | None, Array | None]:
    """The gradients of `rms_norm` for x and weight, given the gradient g of its result."""
    return _backward("rms_norm", g, x, weight, None, rstd, (*need, False), dims)[:2]


def _backward(
    label: str, g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array, need: tuple[bool, ...],
    dims: int,
) -> Gradients:  # fmt: skip
    rows, cols, kept = _extent(label, x, dims, weight=weight)
    check_array(label, "g", g, x.shape)
    check_array(label, "rstd", rstd, kept)
    dx = runtime.cupy().empty(x.shape, x.dtype) if need[0] else None
    flags, like, c_type = need[1:], x.shape[-dims:], c_name(label, x.dtype)
    width = widest(cols, x.itemsize, g, x, weight, dx)
    together = rows > 0 and held(cols, width)
    if dx is not None:
        types, multiprocessors = f"{c_type}, {width}", runtime.multiprocessors(dx.data.device_id)
        most_parts = BLOCKS * multiprocessors if together and any(flags) else None
        shape = row_turns(rows, cols, width, x.itemsize, most_parts, multiprocessors)
        sums = _Sums(like, x.dtype, flags if together else (False, False), shape[0][0])
        args, (_, parts), stats = (g, x, weight, mean, rstd), shape[0], None
        if parts > 1:
            stats, first = runtime.cupy().empty((rows, parts, 2), wide(x.dtype)), f"{label}_backward_parts"
            launch(f"layer_norm_backward_parts<{types}>", shape, *args, stats, rows, cols, label=first)
        results = dx, *sums.places
        launch(f"layer_norm_backward<{types}>", shape, *args, stats, *results, rows, cols, label=f"{label}_backward")
        if together or not any(flags):
            return dx, *sums.added_up()
    elif not any(flags):
        return None, None, None
    shape = sum_tiles(rows, cols, width, x.itemsize)
    sums = _Sums(like, x.dtype, flags, shape[0][1])
    instance = f"layer_norm_parameters<{c_type}, {width}>"
    launch(instance, shape, g, x, mean, rstd, *sums.places, rows, cols, label=f"{label}_parameters")
    return dx, *sums.added_up()


def distance(cols: int, dtype: np.dtype) -> int:
    """The offset in elements of the bias sums after the weight sums: `cols` rounded up to a multiple of 16 bytes."""
    line = VECTOR // dtype.itemsize
    return -(-cols // line) * line


class _Sums:
    """dweight and dbias where wanted, and memory for the partial sums, which a second launch adds.

    Both results are in one allocation, but are not views of an array: a leaf takes each over as its .grad. Each begins
    at a multiple of 16 bytes, so that optimizer kernels can use vector loads.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, needed: tuple[bool, ...], parts: int) -> None:
        xp, cols, count = runtime.cupy(), math.prod(shape), sum(needed)
        second = distance(cols, dtype)
        total = second + cols if count == 2 else count * cols
        self.block = xp.empty((total,), dtype)
        arrays = iter([xp.ndarray(shape, dtype, self.block.data + i * second * dtype.itemsize) for i in range(count)])
        self.partials = xp.empty((parts, total), wide(dtype)) if count and parts > 1 else None
        dweight, dbias = [next(arrays) if flag else None for flag in needed]
        self.places: Gradients = dweight, dbias, self.partials

    def added_up(self) -> tuple[Array | None, Array | None]:
        if self.partials is not None:
            sum_columns(self.partials, self.block, stages=1)
        return self.places[:2]
