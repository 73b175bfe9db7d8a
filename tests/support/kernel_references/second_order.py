"""Streams of tangents and second tangents behind a function of single elements, and its local terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.kernels import stream_groups

from .activations import Choice, choose
from .column_sum import column_sum


def chain_stream(f1: np.ndarray, f2: np.ndarray, stream: np.ndarray, d: int, form: int) -> np.ndarray:
    """The stream behind a function with the first two derivatives f1 and f2 (..., cols)."""
    f1, f2, t = (array.astype(wide(array.dtype)) for array in (f1, f2, stream))
    groups = stream_groups(d, form)
    made = np.zeros((*f1.shape[:-1], d + len(groups), f1.shape[-1]), f1.dtype)
    made[..., : t.shape[-2], :] = f1[..., None, :] * t
    for k, group in enumerate(groups, d):
        made[..., k, :] += f2 * sum(t[..., i, :] * t[..., j, :] for i, j in group)
    return made.astype(stream.dtype)


def chain_stream_backward(
    g: np.ndarray, f1: np.ndarray, f2: np.ndarray, stream: np.ndarray, d: int, form: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of `chain_stream` for f1, f2 and the stream."""
    dtype = stream.dtype
    g, f1, f2, t = (array.astype(wide(array.dtype)) for array in (g, f1, f2, stream))
    t = np.broadcast_to(t, (*f1.shape[:-1], *t.shape[-2:]))
    direct, y = g[..., : t.shape[-2], :], np.zeros_like(t)
    for k, group in enumerate(stream_groups(d, form), d):
        for i, j in group:
            y[..., i, :] += g[..., k, :] * t[..., j, :]
            y[..., j, :] += g[..., k, :] * t[..., i, :]
    grads = (direct * t).sum(-2), (y * t).sum(-2) / 2, f1[..., None, :] * direct + f2[..., None, :] * y
    df1, df2, dstream = (array.astype(dtype) for array in grads)
    return df1, df2, dstream


def activation_jet(
    name: str, saved: np.ndarray, bias: np.ndarray | None, stream: np.ndarray, d: int, form: int, **attributes: Any
) -> np.ndarray:
    """The stream behind an activation; `saved` is its result for tanh and sigmoid, else x."""
    s, f1, f2 = _slopes(choose(name, **attributes), saved, bias)
    return chain_stream(f1, f2, stream.astype(s.dtype), d, form).astype(stream.dtype)


def activation_jet_backward(
    name: str, g: np.ndarray, saved: np.ndarray, bias: np.ndarray | None, stream: np.ndarray, d: int, form: int,
    **attributes: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients of `activation_jet` for saved, bias and stream."""
    choice = choose(name, **attributes)
    act, (s, f1, f2) = choice.act, _slopes(choice, saved, bias)
    df1, df2, dstream = chain_stream_backward(g.astype(s.dtype), f1, f2, stream.astype(s.dtype), d, form)
    ds = df1 * act.second(s, choice.a, choice.b) + df2 * act.third(s, choice.a, choice.b)
    dsaved, dbias, dstream = (array.astype(saved.dtype) for array in (ds, column_sum(ds), dstream))
    return dsaved, dbias, dstream


def _slopes(choice: Choice, saved: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """s, act' and act'' in the accumulation dtype."""
    s, act = saved.astype(wide(saved.dtype)), choice.act
    s = s if bias is None else s + bias.astype(s.dtype)
    slopes = act.pull(np.ones_like(s), s, choice.a, choice.b), act.second_derivative(s, choice.a, choice.b)
    return s, *(array.astype(s.dtype) for array in slopes)


def local_terms(a: np.ndarray, f2: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The sum over the columns of a f2 t_i t_j: (..., o, d, d)."""
    x, y, z = (array.astype(wide(array.dtype)) for array in (a, f2, t))
    return np.einsum("...oh,...h,...ih,...jh->...oij", x, y, z, z).astype(a.dtype)
