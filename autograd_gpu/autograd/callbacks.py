"""Callbacks of the engine: before each node, and at the end of a backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.engine.task_state import final_callbacks_of, running_task
from ..core.graph.hooks import RemovableHandle, add
from ..core.graph.node import Node
from ..core.thread_state import THREAD


def on_node_start(fn: Callable[[Node], Any]) -> RemovableHandle:
    """Calls `fn(node)` before each node that later calls of backward or grad run in this thread.

    This includes AccumulateGrad nodes. `fn` runs after the node's tensor hooks and before its pre-hooks; its result is
    ignored. The handle's `remove()` unregisters it, as does the handle as a context manager at exit.

    >>> x = ag.ones(2, requires_grad=True)
    >>> y = x.exp().sum()
    >>> with ag.autograd.graph.on_node_start(lambda node: print(node.name())):
    ...     y.backward()
    SumBackward0
    ExpBackward0
    AccumulateGrad
    """
    return add(THREAD.state.start_hooks, fn)


def queue_callback(fn: Callable[[], Any]) -> None:
    """Calls `fn()` at the end of the running backward or grad, after all gradients are accumulated.

    For use in hooks and in a Function's backward; belongs to the innermost running backward. Callbacks run in the order
    in which they were queued, including those that a callback queues. They do not run if the backward fails; an
    exception in a callback is raised by the backward. RuntimeError outside of a backward.

    >>> x = ag.ones(2, requires_grad=True)
    >>> done = lambda: print("x.grad is", x.grad)
    >>> handle = x.register_hook(lambda g: ag.autograd.graph.queue_callback(done))
    >>> (x * 2).sum().backward()
    x.grad is tensor([2., 2.])
    """
    task = running_task()
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    final_callbacks_of(task).callbacks.append(fn)
