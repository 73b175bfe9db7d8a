"""A step of a recurrent layer, given its product h_before @ w_hhᵀ, and the gradients of the step.

A row is a sequence, a column one of the layer's units. Matrices of gates have the gates one after the other in each
row: i, f, g, o of an LSTM; r, z, n and the hidden state's part of n of a GRU. In a backward, `g` is the gradient of the
step's own output, or None, and `to_h` what the later steps add to it. The results are written into arrays that are
given, since they are rows of longer ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.dtypes import wide
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, aligned, c_name, check_array, launch
from .tiles import VECTOR, tiles

# The arrays that each kernel reads and writes; those that may be None; how many gates an array holds, if not one.
KERNELS = {
    "lstm_step": (("x", "product", "before"), ("gates", "cells", "values")),
    "lstm_step_backward": (("g", "to_h", "to_c", "gates", "before", "cells"), ("da", "dc")),
    "gru_step": (("x", "product", "bias", "before"), ("gates", "out")),
    "gru_step_backward": (("g", "to_h", "gates", "before"), ("dx", "du", "passed")),
    "rnn_step": (("x", "product"), ("out",)),
    "rnn_step_backward": (("g", "to_h", "out"), ("dx",)),
}
GATES = {
    "lstm": {"x": 4, "product": 4, "gates": 4, "da": 4},
    "gru": {"x": 3, "product": 3, "bias": 3, "gates": 4, "dx": 3, "du": 3},
    "rnn": {},
}
OPTIONAL = "g", "bias"
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh"}


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        for kernel, (reads, writes) in KERNELS.items():
            parameters = (
                *[Parameter(param, "read", dtype, param in OPTIONAL) for param in reads],
                *[Parameter(param, "write", dtype) for param in writes], *SIZE,
            )  # fmt: skip
            functors = [f"{functor}, " for functor in ACTIVATIONS.values()] if kernel.startswith("rnn") else [""]
            for width in (VECTOR // dtype.itemsize, 1):
                for functor in functors:
                    instance, unit = f"{kernel}<{functor}{name}, {width}>", f"{name}, {width}"
                    declare(instance, "recurrent.cu", kernel, parameters, unit=unit)


_declare()


def _launch(kernel: str, like: Array, *arrays: Array | None, functor: str = "") -> None:
    """Launches `kernel` on rows and units of `like`, after a check of the shapes."""
    rows, units = like.shape
    gates = GATES[kernel.partition("_")[0]]
    for name, array in zip(sum(KERNELS[kernel], ()), arrays, strict=True):
        cols = gates.get(name, 1) * units
        if array is not None:
            check_array(kernel, name, array, (cols,) if name == "bias" else (rows, cols))
    c_type, width = c_name(kernel, like.dtype), VECTOR // like.itemsize
    width = width if units % width == 0 and aligned(*arrays) else 1
    launch(f"{kernel}<{functor}{c_type}, {width}>", tiles(rows, units, width, like.itemsize), *arrays, rows, units)


# ---- LSTM --------------------------------------------------------------------------------------------


def lstm_step(x: Array, product: Array, before: Array, gates: Array, cells: Array, values: Array) -> None:
    """gates = i, f, g, o of x + product; cells = f * before + i * g; values = o * tanh(cells)."""
    _launch("lstm_step", before, x, product, before, gates, cells, values)


def lstm_step_reference(x: np.ndarray, product: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, ...]:
    dtype = x.dtype
    x, product, before = _widened(x, product, before)
    i, f, g, o = np.split(x + product, 4, -1)
    i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
    cells = f * before + i * g
    return _narrowed(dtype, np.concatenate([i, f, g, o], -1), cells, o * np.tanh(cells))


def lstm_step_backward(
    g: Array | None, to_h: Array, to_c: Array, gates: Array, before: Array, cells: Array, da: Array, dc: Array
) -> None:
    """da = the gradients of x + product, dc = that of `before`; to_c is that of the cells from the later steps."""
    _launch("lstm_step_backward", before, g, to_h, to_c, gates, before, cells, da, dc)


def lstm_step_backward_reference(
    g: np.ndarray | None, to_h: np.ndarray, to_c: np.ndarray, gates: np.ndarray, before: np.ndarray, cells: np.ndarray
) -> tuple[np.ndarray, ...]:
    dtype = gates.dtype
    to_h, to_c, gates, before, cells = _widened(to_h, to_c, gates, before, cells)
    i, f, new, o = np.split(gates, 4, -1)
    dh, curve = _sum(g, to_h), np.tanh(cells)
    d = to_c + dh * o * (1 - curve * curve)
    parts = d * new * i * (1 - i), d * before * f * (1 - f), d * i * (1 - new * new), dh * curve * o * (1 - o)
    return _narrowed(dtype, np.concatenate(parts, -1), d * f)


# ---- GRU ---------------------------------------------------------------------------------------------


def gru_step(x: Array, product: Array, bias: Array | None, before: Array, gates: Array, out: Array) -> None:
    """gates = r, z, n and u_n of x and u = product + bias; out = (1 - z) * n + z * before."""
    _launch("gru_step", before, x, product, bias, before, gates, out)


def gru_step_reference(
    x: np.ndarray, product: np.ndarray, bias: np.ndarray | None, before: np.ndarray
) -> tuple[np.ndarray, ...]:
    dtype = x.dtype
    x, before = _widened(x, before)
    (x_r, x_z, x_n), (u_r, u_z, u_n) = np.split(x, 3, -1), np.split(_sum(bias, product), 3, -1)
    r, z = _logistic(x_r + u_r), _logistic(x_z + u_z)
    n = np.tanh(x_n + r * u_n)
    return _narrowed(dtype, np.concatenate([r, z, n, u_n], -1), n + z * (before - n))


def gru_step_backward(
    g: Array | None, to_h: Array, gates: Array, before: Array, dx: Array, du: Array, passed: Array
) -> None:
    """dx and du = the gradients of x and u, passed = what the output's gradient gives to `before` by itself."""
    _launch("gru_step_backward", before, g, to_h, gates, before, dx, du, passed)


def gru_step_backward_reference(
    g: np.ndarray | None, to_h: np.ndarray, gates: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, ...]:
    dtype = gates.dtype
    gates, before = _widened(gates, before)
    r, z, n, u = np.split(gates, 4, -1)
    dh = _sum(g, to_h)
    dn = dh * (1 - z) * (1 - n * n)
    both = dn * u * r * (1 - r), dh * (before - n) * z * (1 - z)
    return _narrowed(dtype, np.concatenate([*both, dn], -1), np.concatenate([*both, dn * r], -1), dh * z)


# ---- RNN ---------------------------------------------------------------------------------------------


def rnn_step(activation: str, x: Array, product: Array, out: Array) -> None:
    """out = act(x + product), with "tanh" or "relu"."""
    _launch("rnn_step", out, x, product, out, functor=f"{ACTIVATIONS[activation]}, ")


def rnn_step_reference(activation: str, x: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, ...]:
    a = _sum(x, product)
    return _narrowed(x.dtype, np.where(a <= 0, 0, a) if activation == "relu" else np.tanh(a))


def rnn_step_backward(activation: str, g: Array | None, to_h: Array, out: Array, dx: Array) -> None:
    """dx = (g + to_h) * act'."""
    _launch("rnn_step_backward", out, g, to_h, out, dx, functor=f"{ACTIVATIONS[activation]}, ")


def rnn_step_backward_reference(
    activation: str, g: np.ndarray | None, to_h: np.ndarray, out: np.ndarray
) -> tuple[np.ndarray, ...]:
    (wider,), dh = _widened(out), _sum(g, to_h)
    return _narrowed(out.dtype, np.where(wider <= 0, 0, dh) if activation == "relu" else dh * (1 - wider * wider))


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _sum(a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    """a + b, of half types in float32; b if a is None."""
    return b.astype(wide(b.dtype)) if a is None else a.astype(wide(a.dtype)) + b.astype(wide(b.dtype))


def _widened(*arrays: np.ndarray) -> list[Any]:
    return [x.astype(wide(x.dtype)) for x in arrays]


def _narrowed(dtype: np.dtype, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple([x.astype(dtype) for x in arrays])
