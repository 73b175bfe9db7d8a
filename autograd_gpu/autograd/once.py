"""once_differentiable: a backward that computes on arrays says so, and a second differentiation raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..config import GRAD_OFF, MODES, no_grad
from ..core.tensor import Tensor, wrap
from .function import Function, as_result


class _NotTwice(Function):
    """Hands out `results`, which then depend on `sources` by a node that refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, results: list[Tensor], *sources: Tensor) -> Any:
        return tuple(wrap(t._array) for t in results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a Function's backward as not differentiable: differentiating its result raises instead of giving zeros."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *gs: Any) -> Any:
        recording = not MODES.bits & GRAD_OFF
        with no_grad():
            result = fn(ctx, *gs)
        if not recording:
            return result
        results = tuple(map(as_result, result)) if isinstance(result, tuple) else (as_result(result),)
        found = [r for r in results if isinstance(r, Tensor)]
        sources = [t for t in (*gs, *ctx.saved_tensors) if isinstance(t, Tensor)]
        if not found or not any(s._node is not None for s in sources):
            return result
        marked = iter(_NotTwice.apply(found, *sources))
        results = tuple([next(marked) if isinstance(r, Tensor) else r for r in results])
        return results if isinstance(result, tuple) else results[0]

    return wrapped
