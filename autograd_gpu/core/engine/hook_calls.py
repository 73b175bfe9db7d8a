"""Calls the hooks of a node, and checks what they return."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...backend import is_array
from ...modes import MODES
from ..graph.hooks import Hook
from ..graph.node import Node
from ..tensor import Tensor


def call_tensor_hooks(node: Node, nr: int, g: Tensor | None) -> Tensor | None:
    """Runs the tensor hooks and retain_grad of output `nr`; returns its gradient, None if this task has none."""
    extra = node.extra
    assert extra is not None
    if extra.tensor.get(nr) or nr in extra.retained:
        _refuse_traced()
    for hook in list(extra.tensor.get(nr, {}).values()):
        if g is not None or getattr(hook, "takes_none", False):
            g = _replaced(g, hook(g), hook)
    if g is not None and nr in extra.retained:
        tensor = extra.retained[nr]()
        if tensor is not None:
            if not is_array(g._array):
                raise errors.lifted_gradient()
            with extra.lock:
                tensor._grad = g.clone() if tensor._grad is None else tensor._grad + g
    return g


def call_pre_hooks(node: Node, gs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    if node.extra.pre:  # type: ignore[union-attr]
        _refuse_traced()
    for hook in list(node.extra.pre.values()):  # type: ignore[union-attr]
        gs = _replaced_tuple(gs, hook(gs), hook)
    return gs


def call_post_hooks(
    node: Node, grads: tuple[Tensor | None, ...], gs: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    if node.extra.post:  # type: ignore[union-attr]
        _refuse_traced()
    for hook in list(node.extra.post.values()):  # type: ignore[union-attr]
        grads = _replaced_tuple(grads, hook(grads, gs), hook)
    return grads


def call_post_accumulate_hooks(node: Node, leaf: Tensor) -> None:
    if node.extra.post_accumulate:  # type: ignore[union-attr]
        _refuse_traced()
    for hook in list(node.extra.post_accumulate.values()):  # type: ignore[union-attr]
        if hook(leaf) is not None:
            raise RuntimeError(f"Tensor post accumulate grad hooks should return None; '{_name(hook)}' did not")


def _refuse_traced() -> None:
    """A call that is being traced stays eager: nobody knows what a user's hook does."""
    for level in MODES.stack:
        if level.is_trace:
            level.refuse("a hook on a tensor or a node of the graph runs", "remove the hook, or do its work in the "
                         "function itself")


def _replaced(g: Any, result: Any, hook: Hook) -> Any:
    """Returns the gradient that replaces `g` after a hook returned `result`."""
    if result is None:
        return g
    if g is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(result, type(g)):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}': "
                        f"'{_name(hook)}' must return a Tensor or None")
    for what, mine, theirs in (("type", g.dtype, result.dtype), ("device", g.device, result.device),
                               ("size", list(g.shape), list(result.shape))):
        if mine != theirs:
            raise RuntimeError(f"hook '{_name(hook)}' has changed the {what} of value (was {mine} got {theirs})")
    return result


def _replaced_tuple(gs: tuple[Any, ...], result: Any, hook: Hook) -> tuple[Any, ...]:
    """Does the same for a hook that takes all gradients of a node; a None in `result` removes a gradient."""
    if result is None:
        return gs
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}': '{_name(hook)}' must return "
                        "one value per gradient, or None")
    if len(result) != len(gs):
        raise RuntimeError(f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(result)}, "
                           f"but expected {len(gs)})")
    return tuple([None if r is None else _replaced(g, r, hook) for g, r in zip(gs, result, strict=True)])


def _name(hook: Hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
