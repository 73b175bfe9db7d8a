"""Softmax and log-softmax along the last dimension, and their gradients."""

from __future__ import annotations

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from .constants import SOFTMAX_BACKWARD_STRIPS, SOFTMAX_STRIPS
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch, size
from .tiles import VECTOR, held_tiles, widest

FILE = "softmax.cu"


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        x, g, saved = [Parameter(param, "read", dtype) for param in ("x", "g", "out")]
        out, dx = [Parameter(param, "write", dtype) for param in ("out", "dx")]
        logarithm, safe = [Parameter(param, "scalar", int32) for param in ("logarithm", "safe")]
        parts, known = Parameter("found", "write", wide(dtype)), Parameter("found", "read", wide(dtype), True)
        kernels = {
            "softmax": (x, known, out, logarithm, safe, *SIZE),
            "softmax_backward": (g, saved, known, dx, logarithm, *SIZE),
        }
        first = {  # compiled separately, since few programs need them
            "softmax_parts": (x, parts, *SIZE),
            "softmax_backward_parts": (g, saved._replace(optional=True), parts, *SIZE),
        }
        for width in (VECTOR // dtype.itemsize, 1):
            types = f"{name}, {width}"
            for kernel, parameters in (kernels | first).items():
                unit = f"{types}, in parts" if kernel in first else types
                declare(f"{kernel}<{types}>", FILE, kernel, parameters, unit=unit)


_declare()


def softmax(x: Array, out: Array | None = None, *, logarithm: bool = False, safe: bool = False) -> Array:
    """Softmax over the last dimension, exp(x) / sum(exp(x)), or its logarithm.

    A row with NaN or inf is NaN. A row of -inf only is NaN, or zeros if `safe`. Half types are computed in float32.
    Bitwise reproducible on one GPU. One launch; two if there are too few long rows to fill the GPU, also for the
    gradient.
    """
    label = "log_softmax" if logarithm else "softmax"
    check_array(label, "x", x)
    c_type, (rows, cols) = c_name(label, x.dtype), size(label, x.shape)
    out = runtime.cupy().empty(x.shape, x.dtype) if out is None else out
    check_array(label, "out", out, x.shape)
    width = widest(cols, x.itemsize, x, out)
    shape = held_tiles(rows, cols, width, x.itemsize, SOFTMAX_STRIPS, runtime.multiprocessors(x.data.device_id))
    parts, stats = shape[0][1], None
    if parts > 1:
        stats = runtime.cupy().empty((rows, parts, 2), wide(x.dtype))
        launch(f"softmax_parts<{c_type}, {width}>", shape, x, stats, rows, cols, label=f"{label}_parts")
    launch(f"softmax<{c_type}, {width}>", shape, x, stats, out, logarithm, safe, rows, cols, label=label)
    return out


def softmax_backward(g: Array, out: Array, dx: Array | None = None, *, logarithm: bool = False) -> Array:
    """The gradient of `softmax` for x, given the gradient g of its result `out`; `dx` may be `g`."""
    label = "log_softmax_backward" if logarithm else "softmax_backward"
    check_array(label, "out", out)
    check_array(label, "g", g, out.shape)
    c_type, (rows, cols) = c_name(label, out.dtype), size(label, out.shape)
    dx = runtime.cupy().empty(out.shape, out.dtype) if dx is None else dx
    check_array(label, "dx", dx, out.shape)
    width = widest(cols, out.itemsize, g, out, dx)
    multiprocessors = runtime.multiprocessors(out.data.device_id)
    shape = held_tiles(rows, cols, width, out.itemsize, SOFTMAX_BACKWARD_STRIPS, multiprocessors)
    parts, sums = shape[0][1], None
    if parts > 1:
        sums, factors = runtime.cupy().empty((rows, parts), wide(out.dtype)), None if logarithm else out
        types = f"{c_type}, {width}"
        launch(f"softmax_backward_parts<{types}>", shape, g, factors, sums, rows, cols, label=f"{label}_parts")
    launch(f"softmax_backward<{c_type}, {width}>", shape, g, out, sums, dx, logarithm, rows, cols, label=label)
    return dx
