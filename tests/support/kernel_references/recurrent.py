"""A step of a recurrent layer, given its product h_before @ w_hhᵀ, and the gradients of the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide


def lstm_step(x: np.ndarray, product: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gates i, f, g, o of x + product, the cells, and the values o * tanh(cells)."""
    dtype = x.dtype
    x, product, before = _widened(x, product, before)
    i, f, g, o = np.split(x + product, 4, -1)
    i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
    cells = f * before + i * g
    return _narrowed(dtype, np.concatenate([i, f, g, o], -1), cells, o * np.tanh(cells))


def lstm_step_backward(
    g: np.ndarray | None, to_h: np.ndarray, to_c: np.ndarray, gates: np.ndarray, before: np.ndarray, cells: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The gradients of x + product, and of `before`."""
    dtype = gates.dtype
    to_h, to_c, gates, before, cells = _widened(to_h, to_c, gates, before, cells)
    i, f, new, o = np.split(gates, 4, -1)
    dh, curve = _sum(g, to_h), np.tanh(cells)
    d = to_c + dh * o * (1 - curve * curve)
    parts = d * new * i * (1 - i), d * before * f * (1 - f), d * i * (1 - new * new), dh * curve * o * (1 - o)
    return _narrowed(dtype, np.concatenate(parts, -1), d * f)


def gru_step(
    x: np.ndarray, product: np.ndarray, bias: np.ndarray | None, before: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The gates r, z, n and u_n of x and u = product + bias, and (1 - z) * n + z * before."""
    dtype = x.dtype
    x, before = _widened(x, before)
    (x_r, x_z, x_n), (u_r, u_z, u_n) = np.split(x, 3, -1), np.split(_sum(bias, product), 3, -1)
    r, z = _logistic(x_r + u_r), _logistic(x_z + u_z)
    n = np.tanh(x_n + r * u_n)
    return _narrowed(dtype, np.concatenate([r, z, n, u_n], -1), n + z * (before - n))


def gru_step_backward(
    g: np.ndarray | None, to_h: np.ndarray, gates: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The gradients of x and u, and what the output's gradient gives to `before` by itself."""
    dtype = gates.dtype
    gates, before = _widened(gates, before)
    r, z, n, u = np.split(gates, 4, -1)
    dh = _sum(g, to_h)
    dn = dh * (1 - z) * (1 - n * n)
    both = dn * u * r * (1 - r), dh * (before - n) * z * (1 - z)
    return _narrowed(dtype, np.concatenate([*both, dn], -1), np.concatenate([*both, dn * r], -1), dh * z)


def rnn_step(activation: str, x: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, ...]:
    """act(x + product), with "tanh" or "relu"."""
    a = _sum(x, product)
    return _narrowed(x.dtype, np.where(a <= 0, 0, a) if activation == "relu" else np.tanh(a))


def rnn_step_backward(
    activation: str, g: np.ndarray | None, to_h: np.ndarray, out: np.ndarray
) -> tuple[np.ndarray, ...]:
    """(g + to_h) * act'."""
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
