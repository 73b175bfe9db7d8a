"""Notifies the observers of a task, the log, the profiler and the hooks of `on_node_start`, of each node that runs."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ...backend import counters, device_of
from ...backend.arrays.dtypes import short_name
from ..graph.hooks import NONE, NodeExtra
from ..graph.node import Node
from ..tensor import Tensor
from ..thread_state import THREAD, user_code
from .task_state import TaskState

LOGGER = logging.getLogger("autograd_gpu.autograd.graph")


def notify_observers(task: TaskState, node: Node, g: Any, need: int) -> NodeExtra | None:
    """Notifies observers before `node` runs, if the task is watched; returns the hooks to run the node with."""
    thread = THREAD.state
    if thread.anomaly:
        task.current = node
    report_node(node, g, need)
    if thread.start_hooks:
        with user_code(task.create_graph):
            for hook in list(thread.start_hooks.values()):
                hook(node)
    return NONE if node.extra is None and thread.anomaly else node.extra


def report_node(node: Node, g: Any, need: int) -> None:
    """Counts the rules for the profiler and writes a line to the log; nothing is formatted if the log is off."""
    if counters.ACTIVE:
        counters.rules(node, need)
    if LOGGER.isEnabledFor(logging.DEBUG):
        gs = g if isinstance(g, (list, tuple)) else [g]
        described = ", ".join(map(describe_grad, gs))
        LOGGER.debug("Executing: %r with grad_outputs: [%s]%s", node, described, _skipped(node, need))


def describe_grad(g: Any) -> str:
    """Formats a gradient: f32[10], f32[] for a scalar, f32[10]cuda:0 on a device, None for an undefined gradient."""
    if g is None:
        return "None"
    array = g._array if isinstance(g, Tensor) else g
    device = device_of(array)
    where = "" if device.type == "cpu" or isinstance(array, np.generic) else str(device)
    return f"{short_name(array.dtype)}[{', '.join(map(str, array.shape))}]{where}"


def _skipped(node: Node, need: int) -> str:
    """Formats the inputs that have a gradient rule which this call does not need."""
    skipped = node.mask & ~need
    names = [node.input_name(i) for i in range(len(node.edges)) if skipped >> i & 1]
    return f" skipped: {', '.join(names)}" if names else ""
