"""The cross entropy of logits and classes, and its gradient; see kernels/cross_entropy.cu."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays.dtypes import int32, int64, wide
from ..cuda import runtime
from .constants import THREADS
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch, size
from .tiles import LONGEST_WALK, VECTOR, Launch, held_tiles, row_tiles, widest

FILE = "cross_entropy.cu"
REDUCTIONS = ("none", "sum", "mean")  # by their numbers in the kernels
MOST_SUMS = 4096  # of blocks, which the one block of cross_entropy_total adds up
ONE_BLOCK = 32768  # bytes of logits that one block reads sooner than a second launch could begin


class Classes(NamedTuple):
    """What logits are held against: `weight` (cols,) weighs the classes, rows of class `ignore_index` do not count."""

    target: Array
    weight: Array | None = None
    ignore_index: int = -100
    smoothing: float = 0.0


class Kept(NamedTuple):
    """What the backward needs besides logits and classes, in the wide dtype.

    `lse` (rows) is the logarithm of the sum of exponentials, `rest` (rows) what rounding took from it, `counts` (rows)
    how often the softmax of the row is in the gradient of its loss, `factor`, () or (rows), what those gradients are
    multiplied with.
    """

    lse: Array
    rest: Array
    counts: Array
    factor: Array


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        w = wide(dtype)
        x, out, dx = Parameter("x", "read", dtype), Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        g, logits = Parameter("g", "read", dtype), Parameter("x", "read", dtype, True)
        given = Parameter("target", "read", int64), Parameter("weight", "read", w, True)
        kept = [Parameter(each, "write", w) for each in Kept._fields]
        read = [Parameter(each, "read", w, True) for each in Kept._fields]
        found, partials = Parameter("partials", "read", w), Parameter("partials", "write", w, True)
        options = Parameter("ignore_index", "scalar", int64), Parameter("smoothing", "scalar", w)
        reduction, parts, blocks = [Parameter(each, "scalar", int32) for each in ("reduction", "parts", "blocks")]
        by_row = Parameter("g_by_row", "scalar", int32), Parameter("factor_by_row", "scalar", int32)
        for width in (VECTOR // dtype.itemsize, 1):
            forward = (x, *given, out, *kept, partials, *options, reduction, *SIZE)
            backward = (g, logits, *given, *read, dx, *by_row, *options, *SIZE)
            types = f"{name}, {width}"
            declare(f"cross_entropy<{types}>", FILE, "cross_entropy", forward, types)
            declare(f"cross_entropy_backward<{types}>", FILE, "cross_entropy_backward", backward, types)
        join = (x, *given, found, out, *kept, *options, reduction, parts, *SIZE)
        total = (found, out, kept[3], reduction, blocks)
        declare(f"cross_entropy_join<{name}>", FILE, "cross_entropy_join", join, name)
        declare(f"cross_entropy_total<{name}>", FILE, "cross_entropy_total", total, name)


_declare()


def cross_entropy(x: Array, classes: Classes, reduction: str = "mean") -> tuple[Array, Kept]:
    """The cross entropy of softmax(x) (..., cols) and classes (...), and what its backward needs.

    A class beyond the range makes the loss NaN, and `kept.counts` of its row. `reduction` "mean" divides the sum of the
    losses by that of the weights (NaN if no row counts), "sum" does not divide, "none" gives a loss per row. Two
    launches at most, one for "none" or few logits; the same arrays give the same bits every time.
    """
    c_type, rows, cols, width = _checked("cross_entropy", x, classes, x)
    empty, w, number = runtime.cupy().empty, wide(x.dtype), REDUCTIONS.index(reduction)
    by_row = classes.target.shape
    kept = Kept(empty(by_row, w), empty(by_row, w), empty(by_row, w), empty((), w))
    out = empty(classes.target.shape if reduction == "none" else (), x.dtype)
    shape = forward_tiles(rows, cols, width, x.itemsize, reduction)
    blocks, parts = shape[0]
    later = parts > 1 or (blocks > 1 and reduction != "none")
    partials = empty((rows * parts, 4) if parts > 1 else (blocks, 2), w) if later else None
    given, options = (x, classes.target, classes.weight), (classes.ignore_index, classes.smoothing, number)
    launch(f"cross_entropy<{c_type}, {width}>", shape, *given, out, *kept, partials, *options, rows, cols)
    if parts > 1:
        shape = (1, 1), held_tiles(rows, parts, 1, w.itemsize, 1)[1]
        launch(f"cross_entropy_join<{c_type}>", shape, *given, partials, out, *kept, *options, parts, rows, cols)
    elif later:
        add_up(partials, out, kept.factor, number, blocks)
    return out, kept


def add_up(partials: Array, out: Array, factor: Array, reduction: int, blocks: int) -> None:
    """The result from the sums of several blocks."""
    shape = (1, 1), (THREADS, 1)
    launch(f"cross_entropy_total<{C_NAMES[out.dtype]}>", shape, partials, out, factor, reduction, blocks)


def cross_entropy_reference(x: np.ndarray, classes: Classes, reduction: str = "mean") -> tuple[np.ndarray, Kept]:
    target, weight, ignore_index, smoothing = classes
    w, dtype, cols = x.astype(wide(x.dtype)), wide(x.dtype), x.shape[-1]
    weights = np.ones(cols, dtype) if weight is None else weight
    counted, place = target != ignore_index, np.clip(target, 0, max(cols - 1, 0))
    wrong = counted & (target != place)
    with np.errstate(invalid="ignore", divide="ignore"):
        highest = w.max(-1, keepdims=True, initial=-np.inf)
        log_sum = np.log(np.exp(w - np.where(highest == -np.inf, 0, highest)).sum(-1, keepdims=True))
        minus = highest - w + log_sum
        losses = (1 - smoothing) * weights[place] * np.take_along_axis(minus, place[..., None], -1)[..., 0]
        if smoothing:
            losses += smoothing / max(cols, 1) * (weights * minus).sum(-1)
        losses = np.where(wrong, np.nan, np.where(counted, losses, 0)).astype(dtype)
        divisor = np.where(counted, weights[place], 0).sum(dtype=dtype) if reduction == "mean" else dtype.type(1)
        out = np.asarray(losses if reduction == "none" else losses.sum() / divisor)
        factor = np.asarray(1 / divisor)
    counts = np.where(counted, (1 - smoothing) * weights[place] + smoothing * (weights.mean() if cols else 0), 0)
    counts = np.where(wrong, np.nan, counts)
    lse = highest + log_sum
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isfinite(lse), highest - lse + log_sum, 0)
    kept = Kept(lse[..., 0], rest[..., 0].astype(dtype), counts.astype(dtype), factor.astype(dtype))
    return out.astype(x.dtype), kept


def cross_entropy_backward(g: Array, x: Array, classes: Classes, kept: Kept, dx: Array | None = None) -> Array:
    """The gradient of `cross_entropy` for x, from that of its result: one number, or one per row; `dx` may be `x`.

    Of a row whose class is beyond the range it is NaN.
    """
    label = "cross_entropy_backward"
    dx = runtime.cupy().empty(x.shape, x.dtype) if dx is None else dx
    check_array(label, "dx", dx, x.shape)
    c_type, rows, cols, width = _checked(label, x, classes, x, dx)
    for name, array in [("g", g), *zip(Kept._fields, kept, strict=True)]:
        single = name in ("g", "factor") and not array.ndim
        check_array(label, name, array, () if single else x.shape[:-1])
    shape = row_tiles(rows, cols, width, x.itemsize)
    target, weight, *options = classes
    by_row = g.ndim > 0, kept.factor.ndim > 0
    launch(f"{label}<{c_type}, {width}>", shape, g, x, target, weight, *kept, dx, *by_row, *options, rows, cols)
    return dx


def cross_entropy_backward_reference(g: np.ndarray, x: np.ndarray, classes: Classes, kept: Kept) -> np.ndarray:
    target, weight, ignore_index, smoothing = classes
    dtype, cols = wide(x.dtype), x.shape[-1]
    weights = np.ones(cols, dtype) if weight is None else weight
    place = np.clip(target, 0, max(cols - 1, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(target == ignore_index, 0, g.astype(dtype) * kept.factor)
        probs = np.exp(x.astype(dtype) - kept.lse[..., None] - kept.rest[..., None])
        named = (1 - smoothing) * weights[place][..., None] * (np.arange(cols) == place[..., None])
        dx = scale[..., None] * (kept.counts[..., None] * probs - named - smoothing / max(cols, 1) * weights)
    dx[(target != place) & (target != ignore_index)] = np.nan
    return dx.astype(x.dtype)


def forward_tiles(rows: int, cols: int, width: int, itemsize: int, reduction: str) -> Launch:
    """Grid and block of `cross_entropy`: rows in several parts, or several rows per block."""
    shape = row_tiles(rows, cols, width, itemsize)
    if shape[0][1] > 1:
        return shape
    (blocks, _), block = held_tiles(rows, cols, width, itemsize, LONGEST_WALK)
    if reduction != "none" and rows * cols * itemsize <= ONE_BLOCK:
        blocks = 1
    return (min(max(blocks, 1), MOST_SUMS), 1), block


def _checked(label: str, x: Array, classes: Classes, *matrices: Array) -> tuple[str, int, int, int]:
    """The C++ type, rows and columns of x, and how many columns a thread takes at once."""
    check_array(label, "x", x)
    c_type, (rows, cols) = c_name(label, x.dtype), size(label, x.shape)
    if not cols and math.prod(x.shape[:-1]):
        raise ValueError(f"{label}: x of shape {x.shape} has no classes")
    check_array(label, "target", classes.target, x.shape[:-1])
    if classes.weight is not None:
        check_array(label, "weight", classes.weight, (cols,))
    return c_type, rows, cols, widest(cols, x.itemsize, *matrices, classes.weight)
