"""Runs the nodes of a watched task: observers are notified before each of them, and a tracer times it."""

from __future__ import annotations

from typing import Any

from ...backend import counters
from ..graph.node import Node
from .grad_accumulation import run_adding
from .hook_runner import run_with_hooks
from .observers import notify_observers
from .task_state import TaskState


def run_watched(task: TaskState, node: Node, g: Any, need: int, adds: bool) -> Any:
    """Runs `node` as the engine's loop does; `adds`: its rules may add into existing gradients."""
    tracer = counters.TRACING.tracer
    if tracer is None:
        return _run(task, node, g, need, adds)
    return tracer.node(task, node, need, _run, g, adds)


def _run(task: TaskState, node: Node, g: Any, need: int, adds: bool) -> Any:
    extra = notify_observers(task, node, g, need)
    if extra is not None:
        return run_with_hooks(task, node, g, need, extra)
    if adds:
        return run_adding(task, node, g, need)
    release = not task.keep
    return node.run_recorded(g, need, release) if task.on_tensors else node.run_raw(g, need, release)
