"""Hooks on the graph, and the order in which they run.

For one node of one task: tensor hooks, retain_grad, the capture for grad(inputs=...), node pre-hooks, the node,
node post-hooks; of a leaf: tensor hooks, node pre-hooks, the addition to `.grad`, post-accumulate hooks, and last the
node's post-hooks. A node without hooks has `extra is None`.

The hooks of a kind are listed when their turn comes: one that is removed or added by another of the list takes part
from the next time on.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node

Hook = Callable[..., Any]


class Hooks(dict[int, Any]):
    """Hooks by the id of their handle. Handles refer to it weakly: a hook may hold the handle that removes it."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Removes the hook that it stands for; removing twice is allowed. Also a context manager, which removes at its end.

    `id` is the hook's key in `hooks_dict`, which is a Hooks or an OrderedDict and is referred to weakly; `extra_dict`
    is a further dict, or a list of them, that loses the same key.

    >>> x = ag.ones(1, requires_grad=True)
    >>> with x.register_hook(lambda g: g * 10):
    ...     (2 * x).sum().backward()
    >>> (2 * x).sum().backward()
    >>> x.grad
    tensor([22.])
    """

    _next_id = itertools.count().__next__

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = RemovableHandle._next_id()
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._refs = tuple([weakref.ref(d) for d in (hooks_dict, *extra)])

    def remove(self) -> None:
        """Takes the hook away."""
        for ref in self._refs:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.id, *(ref() for ref in self._refs)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.id, *found = state
        self._refs = tuple([weakref.ref(Hooks() if d is None else d) for d in found])

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.handles

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.handles = state


def add(hooks: Hooks, hook: Any, prepend: bool = False) -> RemovableHandle:
    """Puts `hook` at the end, or at the front, of `hooks`."""
    handle = RemovableHandle(hooks)
    later = list(hooks) if prepend else []
    hooks[handle.id] = hook
    for key in later:
        hooks[key] = hooks.pop(key)
    return handle


class NodeExtra:
    """The rare state of a node: its hooks by kind, and the user's metadata."""

    __slots__ = ("leaf", "lock", "metadata", "post", "post_accumulate", "pre", "retained", "stands_in", "tensor")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # of additions to the `.grad` of what is retained
        self.tensor: dict[int, Hooks] = {}  # output number -> hooks of that tensor
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.pre = Hooks()
        self.post = Hooks()
        self.post_accumulate = Hooks()
        self.metadata: dict[Any, Any] = {}
        self.leaf: Tensor | None = None  # shares the memory of a leaf with post-accumulate hooks, for when it is gone
        self.stands_in = False  # once it is

    def any(self) -> bool:
        """Whether a hook is left that a node pruned by ZERO would have to run for."""
        return bool(any(self.tensor.values()) or self.retained or self.pre or self.post or self.post_accumulate)


_LOCK = threading.Lock()
NONE = NodeExtra()  # of a node that is treated as one with hooks, but has none


def watch(node: Node) -> bool:
    """Whether a user's hook sits on `node`."""
    return node.extra is not None and node.extra.any()


def extra_of(node: Node) -> NodeExtra:
    if node.extra is None:
        with _LOCK:  # two threads must not give one node two
            if node.extra is None:
                node.extra = NodeExtra()
    return node.extra


def add_to_tensor(node: Node, nr: int, hook: Hook) -> RemovableHandle:
    """A hook on output `nr` (as Tensor._nr) of `node`."""
    by_output = extra_of(node).tensor
    if nr not in by_output:
        by_output[nr] = Hooks()
    return add(by_output[nr], hook)


def add_to_leaf(node: Node, leaf: Tensor, hook: Hook) -> RemovableHandle:
    """A post-accumulate hook of `leaf`, whose AccumulateGrad is `node`."""
    extra = extra_of(node)
    extra.leaf = leaf.detach()
    return add(extra.post_accumulate, hook)


def run_tensor_hooks(node: Node, nr: int, g: Tensor | None) -> Tensor | None:
    """The gradient of output `nr` after its tensor hooks and retain_grad; None if there is none in this task."""
    extra = node.extra
    assert extra is not None
    for hook in list(extra.tensor.get(nr, {}).values()):
        if g is not None or getattr(hook, "takes_none", False):
            g = _replaced(g, hook(g), hook)
    if g is not None and nr in extra.retained:
        tensor = extra.retained[nr]()
        if tensor is not None:
            with extra.lock:
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


def run_post_accumulate_hooks(node: Node, leaf: Tensor) -> None:
    for hook in list(node.extra.post_accumulate.values()):  # type: ignore[union-attr]
        if hook(leaf) is not None:
            raise RuntimeError(f"Tensor post accumulate grad hooks should return None; '{_name(hook)}' did not")


def _replaced(g: Any, result: Any, hook: Hook) -> Any:
    """The gradient after a hook that answered `result` for `g`."""
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
    """The same for a hook that takes all gradients of a node; None in the answer takes a gradient away."""
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
