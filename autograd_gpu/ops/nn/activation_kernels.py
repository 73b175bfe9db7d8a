"""The activations' CUDA kernels as forwards and derivatives of ops on CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backend import kernels
from .._support.pointwise import alike

Array = Any


def grad_by_kernel(activation: str, h: Array, saved: Array, **attributes: Any) -> Array:
    """h * act', broadcasting; `saved` is what the derivative is computed from (docs/kernels.md)."""
    arrays = alike(h, saved)
    return kernels.bias_activation_backward(activation, *arrays, need_bias=False, **attributes)[0]


def double_backward(activation: str, g: Array, need: Any, h: Array, saved: Array, **attributes: Any) -> Any:
    """The gradients of `grad_by_kernel` for h and saved from one kernel; None if the rules have to run instead."""
    if not (all(need) and g.shape == h.shape == saved.shape and g.dtype == h.dtype == saved.dtype):
        return None
    g, h, saved = [kernels.contiguous(a) for a in (g, h, saved)]
    attributes["by_result"] = activation in ("tanh", "sigmoid")
    need = (True, True, False)
    return kernels.bias_activation_double_backward(activation, g, None, h, saved, need=need, **attributes)[:2]


def value_forward(activation: str) -> Callable[..., Array]:
    """forward(xp, x, *, attributes...) of an activation on CuPy arrays."""
    return lambda xp, x, **attributes: kernels.bias_activation(activation, kernels.contiguous(x), **attributes)


def grad_forward(activation: str) -> Callable[..., Array]:
    """forward(xp, h, saved, *, attributes...) of the gradient of an activation on CuPy arrays."""
    return lambda xp, h, saved, **attributes: grad_by_kernel(activation, h, saved, **attributes)
