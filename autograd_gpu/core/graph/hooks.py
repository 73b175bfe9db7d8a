"""Hooks on the graph, and their handles.

The order for one node of one task: tensor hooks, retain_grad, the capture for grad(inputs=...), node pre-hooks, the
node, node post-hooks. For a leaf: tensor hooks, node pre-hooks, the addition to `.grad`, post-accumulate hooks, and
last the node's post-hooks. A node without hooks has `extra is None`.

The list of hooks of one kind is copied before the first of them runs: if one of them adds or removes a hook, this takes
effect at the next run.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

Hook = Callable[..., Any]


class Hooks(dict[int, Any]):
    """Hooks by the id of their handle. Handles refer to it weakly: a hook may hold the handle that removes it."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Removes its hook; removing twice is allowed. It is also a context manager, which removes the hook at its end.

    `id` is the hook's key in `hooks_dict`, a Hooks or an OrderedDict, which the handle references weakly; `extra_dict`
    is a further dict, or a list of dicts, from which the same key is removed.

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
        """Removes the hook."""
        for ref in self._refs:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.id, *(ref() for ref in self._refs)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.id, *dicts = state
        self._refs = tuple([weakref.ref(Hooks() if d is None else d) for d in dicts])

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
    """Adds `hook` at the end, or at the front, of `hooks`."""
    handle = RemovableHandle(hooks)
    later = list(hooks) if prepend else []
    hooks[handle.id] = hook
    for key in later:
        hooks[key] = hooks.pop(key)
    return handle


class HasGrad(Protocol):
    """What `retain_grad` needs of a tensor."""

    _grad: Any


class NodeExtra:
    """The rare state of a node: its hooks by kind, and the user's metadata."""

    __slots__ = ("lock", "metadata", "post", "post_accumulate", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # for additions to the `.grad` of tensors with retain_grad
        self.tensor: dict[int, Hooks] = {}  # output number -> hooks of that tensor
        self.retained: dict[int, weakref.ref[HasGrad]] = {}
        self.pre = Hooks()
        self.post = Hooks()
        self.post_accumulate = Hooks()
        self.metadata: dict[Any, Any] = {}

    def any(self) -> bool:
        """Whether there is a hook for which a node behind ZERO edges has to run."""
        return bool(any(self.tensor.values()) or self.retained or self.pre or self.post or self.post_accumulate)


NONE = NodeExtra()  # for a node without hooks that is treated as one with hooks
