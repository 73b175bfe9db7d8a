"""One hook on the gradients of several tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..core.engine.task_state import TaskState, final_callbacks_of, running_task, will_reach
from ..core.graph.hooks import MultiHandle
from ..core.graph.node import Node
from ..core.tensor import Tensor

CALLED_WITH = ("all", "any")


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> MultiHandle:
    """Calls `fn` once per backward with the gradients of `tensors`; the handle's `remove()` unregisters it.

    mode "all": calls `fn(grads)` when all gradients that this backward computes are available; `grads` is a list with
    None for each tensor without a gradient. mode "any": calls `fn(grad)` with the first gradient. A backward that
    reaches none of the tensors does not call `fn`. `fn` must not write to the gradients; its result is ignored.
    RuntimeError for a tensor that does not require grad, unless mode is "any".

    >>> a, b = ag.ones(2, requires_grad=True), ag.ones(2, requires_grad=True)
    >>> c, d = a * b, a * b
    >>> show = lambda grads: print([g is not None for g in grads])
    >>> handle = ag.autograd.graph.register_multi_grad_hook((a, b, c, d), show)
    >>> c.sum().backward()
    [True, True, True, False]
    """
    if mode not in CALLED_WITH:
        raise ValueError(f"Expects mode to be one of {CALLED_WITH} but got {mode}")
    tensors = tuple(tensors)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"register_multi_grad_hook: expected Tensors, got {type(tensor).__name__}")
        if mode == "all" and not tensor.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if mode == "any":
        first = _First(fn)
        return MultiHandle(tuple([t.register_hook(first) for t in tensors if t.requires_grad]))
    gather = _Gather(fn, [(weakref.ref(t._node), t._nr) for t in tensors])  # type: ignore[arg-type]
    return MultiHandle(tuple([t.register_hook(_Arrival(gather, i)) for i, t in enumerate(tensors)]))


class _First:
    """mode "any": calls `fn` with the first gradient of each task."""

    def __init__(self, fn: Callable[[Any], None]) -> None:
        self.fn, self.__name__ = fn, getattr(fn, "__name__", type(fn).__name__)

    def __call__(self, g: Tensor) -> None:
        task = running_task()
        assert task is not None
        gathered = final_callbacks_of(task).gathered
        if self not in gathered:
            gathered[self] = self
            self.fn(g)

    def finish(self) -> None:
        """Does nothing at the end of the task."""


class _Gather:
    """mode "all": a registration. The nodes' hooks reference it, so it references the nodes weakly."""

    def __init__(self, fn: Callable[[Any], None], outputs: list[tuple[weakref.ref[Node], int]]) -> None:
        self.fn, self.outputs = fn, outputs

    def passed_over(self, task: TaskState, i: int) -> bool:
        """Whether output `i` is what `task` began with, and leads to nothing that it asks for."""
        ref, nr = self.outputs[i]
        node = ref()
        return node is not None and node is task.root and not will_reach(task, node, nr)

    def of(self, task: TaskState, i: int) -> _Gathered:
        """What has arrived in `task`; made at the first arrival, that of output `i`."""
        gathered = final_callbacks_of(task).gathered
        if self not in gathered:
            ref, nr = self.outputs[i]
            here = (ref(), nr)
            alive = [(node, nr) for ref, nr in self.outputs if (node := ref()) is not None]
            coming = sum([output == here or will_reach(task, *output) for output in alive])
            gathered[self] = _Gathered(self.fn, len(self.outputs), coming)
        return gathered[self]


class _Arrival:
    """The hook on one tensor."""

    takes_none = True

    def __init__(self, gather: _Gather, i: int) -> None:
        self.gather, self.i = gather, i

    def __call__(self, g: Tensor | None) -> None:
        task = running_task()
        assert task is not None
        if not self.gather.passed_over(task, self.i):
            self.gather.of(task, self.i).arrive(self.i, g)


class _Gathered:
    """The gradients gathered in one task."""

    def __init__(self, fn: Callable[[Any], None], count: int, coming: int) -> None:
        self.fn, self.coming = fn, coming
        self.grads: list[Tensor | None] = [None] * count
        self.called = False

    def arrive(self, i: int, g: Tensor | None) -> None:
        self.grads[i] = g
        self.coming -= 1
        if self.coming == 0:
            self.finish()

    def finish(self) -> None:
        if not self.called and any(g is not None for g in self.grads):
            self.called = True
            self.fn(self.grads)
