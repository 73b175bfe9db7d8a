"""Hooks on the graph, and the order in which they run.

For one node of one task: tensor hooks, retain_grad, the capture for grad(inputs=...), node pre-hooks, the node,
node post-hooks; for a leaf the post-accumulate hooks come last. A node without hooks has `extra is None`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node import Node
    from .tensor import Tensor

Hook = Callable[..., Any]


class RemovableHandle:
    """Removes the hook that it stands for; removing twice is allowed. Also a context manager."""

    def __init__(self, hooks: dict[int, Hook], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        self._hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class NodeExtra:
    """The rare state of a node: its hooks by kind, and the user's metadata."""

    __slots__ = ("count", "metadata", "post", "post_accumulate", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Hook]] = {}  # output number -> hooks of that tensor
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.pre: dict[int, Hook] = {}
        self.post: dict[int, Hook] = {}
        self.post_accumulate: dict[int, Hook] = {}
        self.metadata: dict[Any, Any] = {}
        self.count = 0

    def any(self) -> bool:
        """Whether a hook is left that a node pruned by ZERO would have to run for."""
        return bool(any(self.tensor.values()) or self.retained or self.pre or self.post or self.post_accumulate)


def watch(node: Node) -> bool:
    """Whether a user's hook sits on `node`."""
    return node.extra is not None and node.extra.any()


def extra_of(node: Node) -> NodeExtra:
    if node.extra is None:
        node.extra = NodeExtra()
    return node.extra


def add(node: Node, hooks: dict[int, Hook], hook: Hook) -> RemovableHandle:
    extra = extra_of(node)
    extra.count += 1
    hooks[extra.count] = hook
    return RemovableHandle(hooks, extra.count)


def run_tensor_hooks(node: Node, nr: int, g: Tensor) -> Tensor:
    """The gradient of output `nr` after its tensor hooks and retain_grad."""
    extra = node.extra
    assert extra is not None
    for hook in list(extra.tensor.get(nr, {}).values()):
        g = _replaced(g, hook(g), hook)
    if nr in extra.retained:
        tensor = extra.retained[nr]()
        if tensor is not None:
            tensor._grad = g.clone() if tensor._grad is None else tensor._grad + g
    return g


def run_pre_hooks(node: Node, gs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    for hook in list(node.extra.pre.values()):  # type: ignore[union-attr]
        gs = _replaced_tuple(gs, hook(gs), hook)
    return gs


def run_post_hooks(
    node: Node, grads: tuple[Tensor | None, ...], gs: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    for hook in list(node.extra.post.values()):  # type: ignore[union-attr]
        grads = _replaced_tuple(grads, hook(grads, gs), hook)
    return grads


def _replaced(g: Any, result: Any, hook: Hook) -> Any:
    if result is None:
        return g
    if type(result) is not type(g):
        raise TypeError(f"hook '{_name(hook)}' has changed the type of value: it must return a Tensor or None; "
                        f"got {type(result).__name__}")
    if g is not None and (result.shape, result.dtype) != (g.shape, g.dtype):
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size or dtype of value: "
                           f"{list(g.shape)} {g.dtype} became {list(result.shape)} {result.dtype}")
    return result


def _replaced_tuple(gs: tuple[Any, ...], result: Any, hook: Hook) -> tuple[Any, ...]:
    if result is None:
        return gs
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(gs):
        raise RuntimeError(f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(result)}, "
                           f"but expected {len(gs)})")
    return tuple(_replaced(g, r, hook) if g is not None else r for g, r in zip(gs, result, strict=True))


def _name(hook: Hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
