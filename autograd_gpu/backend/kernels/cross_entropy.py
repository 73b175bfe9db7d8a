"""Cross entropy of logits and class indices, and its gradient; see kernels/cross_entropy.cu."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..arrays.dtypes import int32, int64, wide
from ..arrays.loss_classes import Classes, CrossEntropySaved
from ..cuda import runtime
from .constants import THREADS
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch, size
from .tiles import LONGEST_WALK, VECTOR, Launch, held_tiles, row_tiles, sum_tiles, widest

FILE = "cross_entropy.cu"
REDUCTIONS = ("none", "sum", "mean")  # the index is the reduction's code in the kernels
MOST_SUMS = 4096  # maximum number of block sums, which the single block of cross_entropy_total adds
ONE_BLOCK = 32768  # bytes of logits up to which one block is faster than two launches


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        w = wide(dtype)
        x, out, dx = Parameter("x", "read", dtype), Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        g, logits = Parameter("g", "read", dtype), Parameter("x", "read", dtype, True)
        classes = Parameter("target", "read", int64), Parameter("weight", "read", w, True)
        saved = [Parameter(param, "write", w) for param in CrossEntropySaved._fields]
        read = [Parameter(param, "read", w, True) for param in CrossEntropySaved._fields]
        known, partials = Parameter("partials", "read", w), Parameter("partials", "write", w, True)
        options = Parameter("ignore_index", "scalar", int64), Parameter("smoothing", "scalar", w)
        numbers = [Parameter(param, "scalar", int32) for param in ("reduction", "parts", "blocks", "across")]
        reduction, parts, blocks, across = numbers
        by_row = Parameter("g_by_row", "scalar", int32), Parameter("factor_by_row", "scalar", int32)
        for width in (VECTOR // dtype.itemsize, 1):
            forward = (x, *classes, out, *saved, partials, *options, reduction, *SIZE)
            backward = (g, logits, *classes, *read, dx, *by_row, *options, *SIZE)
            types = f"{name}, {width}"
            declare(f"cross_entropy<{types}>", FILE, "cross_entropy", forward, types)
            declare(f"cross_entropy_backward<{types}>", FILE, "cross_entropy_backward", backward, types)
            made = [Parameter(param, "write", dtype, param in ("x", "sums")) for param in ("x", "out", "dx", "sums")]
            arrays = (Parameter("z", "read", dtype), Parameter("bias", "read", dtype, True), *classes, g, *made)
            step = (*arrays, Parameter("kept", "write", w), *options, reduction, across, *SIZE)
            declare(f"cross_entropy_step<{types}>", FILE, "cross_entropy_step", step, types)
        join = (x, *classes, known, out, *saved, *options, reduction, parts, *SIZE)
        total = (known, out, saved[3], reduction, blocks)
        declare(f"cross_entropy_join<{name}>", FILE, "cross_entropy_join", join, name)
        declare(f"cross_entropy_total<{name}>", FILE, "cross_entropy_total", total, name)


_declare()


def cross_entropy(x: Array, classes: Classes, reduction: str = "mean") -> tuple[Array, CrossEntropySaved]:
    """The cross entropy of softmax(x) (..., cols) and classes (...), and the values saved for the backward.

    A class out of range makes the loss NaN, and `counts` of its row. `reduction` "mean" divides the sum of the losses
    by the sum of the weights (NaN if all rows are ignored), "sum" does not divide, "none" returns a loss per row. At
    most two launches, one for "none" or few logits. Bitwise reproducible.
    """
    c_type, rows, cols, width = _checked("cross_entropy", x, classes, x)
    empty, w, number = runtime.cupy().empty, wide(x.dtype), REDUCTIONS.index(reduction)
    by_row = classes.target.shape
    saved = CrossEntropySaved(empty(by_row, w), empty(by_row, w), empty(by_row, w), empty((), w))
    out = empty(classes.target.shape if reduction == "none" else (), x.dtype)
    shape = forward_tiles(rows, cols, width, x.itemsize, reduction)
    blocks, parts = shape[0]
    later = parts > 1 or (blocks > 1 and reduction != "none")
    partials = empty((rows * parts, 4) if parts > 1 else (blocks, 2), w) if later else None
    inputs, options = (x, classes.target, classes.weight), (classes.ignore_index, classes.smoothing, number)
    launch(f"cross_entropy<{c_type}, {width}>", shape, *inputs, out, *saved, partials, *options, rows, cols)
    if parts > 1:
        shape = (1, 1), held_tiles(rows, parts, 1, w.itemsize, 1)[1]
        launch(f"cross_entropy_join<{c_type}>", shape, *inputs, partials, out, *saved, *options, parts, rows, cols)
    elif later:
        add_up(partials, out, saved.factor, number, blocks)
    return out, saved


def add_up(partials: Array, out: Array, factor: Array, reduction: int, blocks: int) -> None:
    """Reduces the sums of several blocks to the result."""
    shape = (1, 1), (THREADS, 1)
    launch(f"cross_entropy_total<{C_NAMES[out.dtype]}>", shape, partials, out, factor, reduction, blocks)


def cross_entropy_backward(
    g: Array, x: Array, classes: Classes, saved: CrossEntropySaved, dx: Array | None = None
) -> Array:
    """The gradient of `cross_entropy` for x, given the gradient g of its result, () or one per row; `dx` may be `x`.

    NaN for a row whose class is out of range.
    """
    label = "cross_entropy_backward"
    dx = runtime.cupy().empty(x.shape, x.dtype) if dx is None else dx
    check_array(label, "dx", dx, x.shape)
    c_type, rows, cols, width = _checked(label, x, classes, x, dx)
    for name, array in [("g", g), *zip(CrossEntropySaved._fields, saved, strict=True)]:
        single = name in ("g", "factor") and not array.ndim
        check_array(label, name, array, () if single else x.shape[:-1])
    shape = row_tiles(rows, cols, width, x.itemsize)
    target, weight, *options = classes
    by_row = g.ndim > 0, saved.factor.ndim > 0
    launch(f"{label}<{c_type}, {width}>", shape, g, x, target, weight, *saved, dx, *by_row, *options, rows, cols)
    return dx


class LossStep(NamedTuple):
    """Results of `cross_entropy_step`: the loss, its gradient, the sums of that, and z + bias if it is needed."""

    loss: Array
    dx: Array
    sums: Array | None
    x: Array


def cross_entropy_step(
    z: Array, bias: Array | None, classes: Classes, g: Array, reduction: str, need: tuple[bool, bool] = (True, True),
    dx: Array | None = None, x: Array | None = None,
) -> LossStep:  # fmt: skip
    """The loss of the logits z + bias, for which `suits_step` holds, and its gradient for the gradient g of the loss.

    One launch, with the bits of `cross_entropy`, `cross_entropy_backward` and `column_sum` (of more rows than that sums
    in one launch, its order of sums is another one). `need`: whether sums and z + bias are; the latter, and dx, may lie
    over z.
    """
    label, empty, w = "cross_entropy_step", runtime.cupy().empty, wide(z.dtype)
    dx = empty(z.shape, z.dtype) if dx is None else dx
    if bias is None or not need[1]:
        x = z if bias is None else dx
    x = empty(z.shape, z.dtype) if x is None else x
    c_type, rows, cols, width = _checked(label, z, classes, x, dx, bias)
    for name, array, shape in (("g", g, ()), ("x", x, z.shape), ("dx", dx, z.shape), ("bias", bias, (cols,))):
        if array is not None:
            check_array(label, name, array, shape)
    loss, sums = empty((), z.dtype), empty((cols,), z.dtype) if need[0] else None
    shape = forward_tiles(rows, cols, width, z.itemsize, reduction)
    across = sum_tiles(rows, cols, width, z.itemsize)[1][0]
    target, weight, *options = classes
    arrays = (z, bias, target, weight, g, None if bias is None else x, loss, dx, sums, empty((3 * rows + 1,), w))
    launch(f"{label}<{c_type}, {width}>", shape, *arrays, *options, REDUCTIONS.index(reduction), across, rows, cols)
    return LossStep(loss, dx, sums, x)


def suits_step(shape: tuple[int, ...], itemsize: int, reduction: str) -> bool:
    """Whether one block computes the loss of logits of this shape."""
    rows, cols = math.prod(shape[:-1]), shape[-1]
    return 0 < rows * cols * itemsize <= ONE_BLOCK and reduction != "none"


def forward_tiles(rows: int, cols: int, width: int, itemsize: int, reduction: str) -> Launch:
    """Grid and block of `cross_entropy`: several blocks per row, or several rows per block."""
    shape = row_tiles(rows, cols, width, itemsize)
    if shape[0][1] > 1:
        return shape
    (blocks, _), block = held_tiles(rows, cols, width, itemsize, LONGEST_WALK)
    if reduction != "none" and rows * cols * itemsize <= ONE_BLOCK:
        blocks = 1
    return (min(max(blocks, 1), MOST_SUMS), 1), block


def _checked(label: str, x: Array, classes: Classes, *matrices: Array) -> tuple[str, int, int, int]:
    """Checks the arguments; returns the C++ type, rows and columns of x, and the elements per vector load."""
    check_array(label, "x", x)
    c_type, (rows, cols) = c_name(label, x.dtype), size(label, x.shape)
    if not cols and math.prod(x.shape[:-1]):
        raise ValueError(f"{label}: x of shape {x.shape} has no classes")
    check_array(label, "target", classes.target, x.shape[:-1])
    if classes.weight is not None:
        check_array(label, "weight", classes.weight, (cols,))
    return c_type, rows, cols, widest(cols, x.itemsize, *matrices, classes.weight)
