"""Negative log-likelihood of class indices, and its gradient; see kernels/cross_entropy.cu."""

from __future__ import annotations

from ..arrays.dtypes import int32, int64, wide
from ..arrays.loss_classes import Classes
from ..cuda import runtime
from .constants import THREADS
from .cross_entropy import FILE, MOST_SUMS, REDUCTIONS, add_up
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import Launch, row_tiles, widest


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        w = wide(dtype)
        classes = Parameter("target", "read", int64), Parameter("weight", "read", w, True)
        out, factor = Parameter("out", "write", dtype), Parameter("factor", "write", w)
        partials = Parameter("partials", "write", w, True)
        options = Parameter("ignore_index", "scalar", int64), Parameter("reduction", "scalar", int32)
        parameters = (Parameter("x", "read", dtype), *classes, out, factor, partials, *options, *SIZE)
        declare(f"nll<{name}>", FILE, "nll", parameters, name)


_declare()


def nll(x: Array, classes: Classes, reduction: str = "mean") -> tuple[Array, Array]:
    """The negative log-likelihood -x[..., class], weighted and reduced as in `cross_entropy`; and its factor.

    x is (..., cols), the classes are (...). The factor is that of the gradients of the rows' losses, in the
    accumulation dtype. Reads one number per row, in at most two launches; ignores `classes.smoothing`.
    """
    check_array("nll", "x", x)
    cols = _columns("nll", x.shape, classes)
    empty, w, number = runtime.cupy().empty, wide(x.dtype), REDUCTIONS.index(reduction)
    rows = classes.target.size
    out, factor = empty(classes.target.shape if reduction == "none" else (), x.dtype), empty((), w)
    shape = nll_tiles(rows)
    blocks = shape[0][0]
    partials = empty((blocks, 2), w) if blocks > 1 and reduction != "none" else None
    inputs, options = (x, classes.target, classes.weight), (classes.ignore_index, number)
    launch(f"nll<{c_name('nll', x.dtype)}>", shape, *inputs, out, factor, partials, *options, rows, cols)
    if partials is not None:
        add_up(partials, out, factor, number, blocks)
    return out, factor


def nll_backward(g: Array, classes: Classes, cols: int, factor: Array | None = None) -> Array:
    """The gradient of `nll` for x (..., cols), given the gradient g of its result, () or one per row, in one launch.

    Zero except at the classes; NaN in rows whose class is out of range. `factor` is that of `nll`; None means 1.
    """
    label = "nll_backward"
    check_array(label, "g", g, classes.target.shape if g.ndim else ())
    if factor is not None:
        check_array(label, "factor", factor, ())
    shape = (*classes.target.shape, cols)
    _columns(label, shape, classes)
    dx = runtime.cupy().empty(shape, g.dtype)
    rows, width = classes.target.size, widest(cols, g.itemsize, dx)
    grid, name = row_tiles(rows, cols, width, g.itemsize), f"cross_entropy_backward<{c_name(label, g.dtype)}, {width}>"
    pair, options = (classes.target, classes.weight), (classes.ignore_index, 0.0)
    launch(name, grid, g, None, *pair, None, None, None, factor, dx, g.ndim > 0, 0, *options, rows, cols, label=label)
    return dx


def nll_tiles(rows: int) -> Launch:
    """Grid and block of `nll`: each thread processes rows in sequence."""
    return (min(max(-(-rows // THREADS), 1), MOST_SUMS), 1), (THREADS, 1)


def _columns(label: str, shape: tuple[int, ...], classes: Classes) -> int:
    check_array(label, "target", classes.target, shape[:-1])
    cols = shape[-1] if shape else 0
    if not cols and classes.target.size:
        raise ValueError(f"{label}: x of shape {shape} has no classes")
    if classes.weight is not None:
        check_array(label, "weight", classes.weight, (cols,))
    return cols
