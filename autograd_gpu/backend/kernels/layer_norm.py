"""Layer norm and RMS norm over the last dimension, and their gradients.

The statistics, one number per row, have the dtype that the arrays are computed in: float32 for half types.
"""

from __future__ import annotations

import math

import numpy as np

from .. import cuda
from .column_sum import column_sum, column_sum_reference, sum_columns
from .instances import C_NAMES, SIZE, Parameter, declare, wide
from .launcher import Array, c_name, check_array, launch, size
from .tiles import VECTOR, held, row_turns, sum_tiles, widest

FILE = "layer_norm.cu"
Gradients = tuple[Array | None, Array | None, Array | None]


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        g, x = Parameter("g", "read", dtype), Parameter("x", "read", dtype)
        weight, bias = Parameter("weight", "read", dtype, True), Parameter("bias", "read", dtype, True)
        mean, rstd = Parameter("mean", "read", wide(dtype), True), Parameter("rstd", "read", wide(dtype))
        found = Parameter("mean", "write", wide(dtype), True), Parameter("rstd", "write", wide(dtype))
        sums = (
            Parameter("dweight", "write", dtype, True), Parameter("dbias", "write", dtype, True),
            Parameter("partials", "write", wide(dtype), True),
        )  # fmt: skip
        kernels = {
            "layer_norm": (x, weight, bias, Parameter("out", "write", dtype), *found,
                           Parameter("eps", "scalar", wide(dtype)), *SIZE),
            "layer_norm_backward": (g, x, weight, mean, rstd, Parameter("dx", "write", dtype), *sums, *SIZE),
            "layer_norm_parameters": (g, x, mean, rstd, *sums, *SIZE),
        }  # fmt: skip
        for width in (VECTOR // dtype.itemsize, 1):
            for kernel, parameters in kernels.items():
                declare(f"{kernel}<{name}, {width}>", FILE, kernel, parameters, unit=name)


_declare()


# ---- forward -----------------------------------------------------------------------------------------


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias for x (..., cols), weight and bias (cols,) or None; also mean and rstd."""
    mean = cuda.cupy().empty(x.shape[:-1], wide(x.dtype))
    out, rstd = _forward("layer_norm", x, weight, bias, mean, eps)
    return out, mean, rstd


def rms_norm(x: Array, weight: Array | None = None, eps: float = 1e-5) -> tuple[Array, Array]:
    """x * rstd * weight for x (..., cols) and weight (cols,) or None; also rstd = 1 / sqrt(mean(x * x) + eps)."""
    return _forward("rms_norm", x, weight, None, None, eps)


def _forward(
    label: str, x: Array, weight: Array | None, bias: Array | None, mean: Array | None, eps: float
) -> tuple[Array, Array]:
    check_array(label, "x", x)
    c_type, xp = c_name(label, x.dtype), cuda.cupy()
    rows, cols = _size(label, x, weight=weight, bias=bias)
    out, rstd = xp.empty(x.shape, x.dtype), xp.empty(x.shape[:-1], wide(x.dtype))
    width = widest(cols, x.itemsize, x, weight, bias, out)
    shape = row_turns(rows, cols, width, x.itemsize)
    launch(f"layer_norm<{c_type}, {width}>", shape, x, weight, bias, out, mean, rstd, eps, rows, cols, label=label)
    return out, rstd


def _size(label: str, x: Array, **vectors: Array | None) -> tuple[int, int]:
    """Rows and columns: also of empty rows, which have statistics."""
    _, cols = size(label, x)
    for name, vector in vectors.items():
        if vector is not None:
            check_array(label, name, vector, (cols,))
    return math.prod(x.shape[:-1]), cols


def layer_norm_reference(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, eps: float = 1e-5,
    centered: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Of an RMS norm, with centered=False, the mean is zeros."""
    wider, n = x.astype(wide(x.dtype)), max(x.shape[-1], 1)
    mean = wider.sum(-1, keepdims=True) / n if centered else np.zeros((*x.shape[:-1], 1), wider.dtype)
    rstd = (1 / np.sqrt(((wider - mean) ** 2).sum(-1, keepdims=True) / n + eps)).astype(wider.dtype)
    out = (wider - mean) * rstd
    out = out if weight is None else out * weight.astype(wider.dtype)
    out = out if bias is None else out + bias.astype(wider.dtype)
    return out.astype(x.dtype), mean[..., 0], rstd[..., 0]


# ---- backward ----------------------------------------------------------------------------------------


def layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, need: tuple[bool, ...] = (True, True, True)
) -> Gradients:
    """The gradients of `layer_norm` for x, weight and bias, from that of its result; None for one that `need` omits.

    Those of weight and bias are summed in float32 or wider, in an order that depends on shape, dtype and alignment
    alone. They cost no pass of their own, unless rows are longer than a block of threads can hold.
    """
    check_array("layer_norm", "mean", mean, x.shape[:-1])
    return _backward("layer_norm", g, x, weight, mean, rstd, need)


def rms_norm_backward(
    g: Array, x: Array, weight: Array | None, rstd: Array, need: tuple[bool, ...] = (True, True)
) -> tuple[Array | None, Array | None]:
    """The gradients of `rms_norm` for x and weight."""
    return _backward("rms_norm", g, x, weight, None, rstd, (*need, False))[:2]


def _backward(
    label: str, g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array, need: tuple[bool, ...]
) -> Gradients:
    wanted, none = need[1:], (None, None)
    if not need[0] and wanted == (False, True):
        return None, None, column_sum(g)
    check_array(label, "x", x)
    check_array(label, "g", g, x.shape)
    check_array(label, "rstd", rstd, x.shape[:-1])
    rows, cols = _size(label, x, weight=weight)
    width = widest(cols, x.itemsize, g, x, weight)
    if not need[0]:
        return None, *(_parameters(label, g, x, mean, rstd, wanted, rows, cols, width) if any(wanted) else none)
    dx = cuda.cupy().empty(x.shape, x.dtype)
    width = min(width, widest(cols, x.itemsize, dx))
    together = rows > 0 and any(wanted) and held(cols, width, x.itemsize)
    shape = row_turns(rows, cols, width, x.itemsize, together)
    total, sums = _sums(cols, x.dtype, wanted if together else (False, False), shape[0][0])
    instance = f"layer_norm_backward<{c_name(label, x.dtype)}, {width}>"
    launch(instance, shape, g, x, weight, mean, rstd, dx, *sums, rows, cols, label=f"{label}_backward")
    if any(wanted) and not together:
        return dx, *_parameters(label, g, x, mean, rstd, wanted, rows, cols, width)
    return dx, *_added(total, sums)


def _parameters(
    label: str, g: Array, x: Array, mean: Array | None, rstd: Array, wanted: tuple[bool, ...], rows: int, cols: int,
    width: int,
) -> tuple[Array | None, Array | None]:  # fmt: skip
    """dweight and dbias by themselves."""
    shape = sum_tiles(rows, cols, width, x.itemsize)
    total, sums = _sums(cols, x.dtype, wanted, shape[0][1])
    instance = f"layer_norm_parameters<{c_name(label, x.dtype)}, {width}>"
    launch(instance, shape, g, x, mean, rstd, *sums, rows, cols, label=f"{label}_parameters")
    return _added(total, sums)


Sums = tuple[Array | None, Array | None, Array | None]


def _sums(cols: int, dtype: np.dtype, wanted: tuple[bool, ...], parts: int) -> tuple[Array | None, Sums]:
    """Memory for dweight and dbias, side by side, and for the sums of the grid's parts."""
    count, xp = sum(wanted), cuda.cupy()
    if not count:
        return None, (None, None, None)
    total = xp.empty((count, cols), dtype)
    partials = xp.empty((parts, count * cols), wide(dtype)) if parts > 1 else None
    return total, (total[0] if wanted[0] else None, total[-1] if wanted[1] else None, partials)


def _added(total: Array | None, sums: Sums) -> tuple[Array | None, Array | None]:
    """dweight and dbias, the sums of the parts added up."""
    dweight, dbias, partials = sums
    if total is not None and partials is not None:
        sum_columns(partials, total.reshape(-1), stages=1)
    return dweight, dbias


def layer_norm_backward_reference(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, centered: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    wider = g.astype(wide(g.dtype))
    scale = rstd[..., None]
    normal = (x.astype(wider.dtype) - mean[..., None]) * scale
    h = wider if weight is None else wider * weight.astype(wider.dtype)
    n = max(x.shape[-1], 1)
    dx = h - normal * ((h * normal).sum(-1, keepdims=True) / n)
    dx = scale * (dx - h.sum(-1, keepdims=True) / n if centered else dx)
    dweight, dbias = column_sum_reference(wider * normal), column_sum_reference(wider)
    return dx.astype(x.dtype), dweight.astype(x.dtype), dbias.astype(x.dtype)
