"""relu(x + bias), and its backward with the gradient of the bias in the same pass."""

from __future__ import annotations

import numpy as np

from .. import cuda
from .column_sum import column_sum_reference, sum_columns
from .instances import C_NAMES, SIZE, Parameter, declare, wide
from .launcher import Array, c_name, check_array, launch, size
from .tiles import VECTOR, sum_tiles, tiles, widest


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        x, out, dx = Parameter("x", "read", dtype), Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        g, result = Parameter("g", "read", dtype), Parameter("out", "read", dtype)
        bias, dbias = Parameter("bias", "read", dtype, optional=True), Parameter("dbias", "write", dtype, optional=True)
        partials = Parameter("partials", "write", wide(dtype), optional=True)
        for width in (VECTOR // dtype.itemsize, 1):
            forward, backward = (x, bias, out, *SIZE), (g, result, dx, dbias, partials, *SIZE)
            declare(f"bias_relu<{name}, {width}>", "bias_relu.cu", "bias_relu", forward)
            declare(f"bias_relu_backward<{name}, {width}>", "bias_relu.cu", "bias_relu_backward", backward)


_declare()


def bias_relu(x: Array, bias: Array | None = None, out: Array | None = None) -> Array:
    """relu(x + bias) for x (..., cols) and bias (cols,) or None; `out` may be `x`. The relu of NaN is NaN."""
    check_array("bias_relu", "x", x)
    name = c_name("bias_relu", x.dtype)
    out = cuda.cupy().empty(x.shape, x.dtype) if out is None else out
    check_array("bias_relu", "out", out, x.shape)
    if bias is None:
        rows, cols = 1, x.size
    else:
        rows, cols = size("bias_relu", x)
        check_array("bias_relu", "bias", bias, (cols,))
    width = widest(cols, x.itemsize, x, out, bias)
    shape = tiles(rows, cols, width, x.itemsize)
    launch(f"bias_relu<{name}, {width}>", shape, x, bias, out, rows, cols)
    return out


def bias_relu_reference(x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    total = x.astype(wide(x.dtype))
    if bias is not None:
        total += bias
    return np.where(total <= 0, 0, total).astype(x.dtype)


def bias_relu_backward(
    g: Array, out: Array, dx: Array | None = None, need_bias: bool = True
) -> tuple[Array, Array | None]:
    """The gradients of `bias_relu` for x and bias, from that of its result `out`; `dx` may be `g`.

    As in PyTorch, the gradient passes where `out` is NaN.
    """
    check_array("bias_relu_backward", "out", out)
    xp, dtype = cuda.cupy(), out.dtype
    name = c_name("bias_relu_backward", dtype)
    dx = xp.empty(out.shape, dtype) if dx is None else dx
    check_array("bias_relu_backward", "g", g, out.shape)
    check_array("bias_relu_backward", "dx", dx, out.shape)
    rows, cols = size("bias_relu_backward", out) if need_bias else (1, out.size)
    width = widest(cols, out.itemsize, g, out, dx)
    dbias = xp.empty((cols,), dtype) if need_bias else None
    shape = (sum_tiles if need_bias else tiles)(rows, cols, width, out.itemsize)
    parts = shape[0][1]
    partials = xp.empty((parts, cols), wide(dtype)) if need_bias and parts > 1 else None
    launch(f"bias_relu_backward<{name}, {width}>", shape, g, out, dx, dbias, partials, rows, cols)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return dx, dbias


def bias_relu_backward_reference(g: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dx = np.where(out.astype(wide(out.dtype)) <= 0, g.dtype.type(0), g)
    return dx, column_sum_reference(dx)
