"""act(x + bias), its backward and its double backward, with the bias gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide

from .activations import Choice, choose
from .column_sum import column_sum


def bias_activation(name: str, x: np.ndarray, bias: np.ndarray | None = None, **attributes: Any) -> np.ndarray:
    """act(x + bias) for x (..., cols) and bias (cols,) or None."""
    choice = choose(name, **attributes)
    value = choice.act.value(_saved(choice, x, bias, False), choice.a, choice.b)
    return value.astype(x.dtype)


def bias_activation_backward(
    name: str, g: np.ndarray, saved: np.ndarray, bias: np.ndarray | None = None, **attributes: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `bias_activation` for x and bias, given the gradient g of its result."""
    choice = choose(name, **attributes)
    s = _saved(choice, saved, bias)
    dx = choice.act.pull(g.astype(s.dtype), s, choice.a, choice.b).astype(s.dtype)
    return dx.astype(g.dtype), column_sum(dx).astype(g.dtype)


def bias_activation_double_backward(
    name: str, gg: np.ndarray, ggb: np.ndarray, g: np.ndarray, saved: np.ndarray, bias: np.ndarray | None = None,
    by_result: bool = False, **attributes: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients of `bias_activation_backward` for g, x and bias; zeros for the last two of relu and leaky_relu."""
    choice = choose(name, **attributes)
    act, a, b = choice.act, choice.a, choice.b
    s = _saved(choice, saved, bias)
    h = gg.astype(s.dtype) + ggb.astype(s.dtype)
    dx = np.zeros_like(s) if act.second is None else h * g.astype(s.dtype) * act.second(s, a, b)
    if act.from_result and not by_result:
        dx = act.pull(dx, s, a, b)
    dg, dbias = act.pull(h, s, a, b), column_sum(dx)
    return dg.astype(g.dtype), dx.astype(g.dtype), dbias.astype(g.dtype)


def _saved(choice: Choice, saved: np.ndarray, bias: np.ndarray | None, backward: bool = True) -> np.ndarray:
    """`saved` in the accumulation dtype, plus the bias unless it is the result."""
    s = saved.astype(wide(saved.dtype))
    if bias is None or (backward and choice.act.from_result):
        return s
    return s + bias.astype(s.dtype)
