"""Runs a node that has hooks, or that anomaly mode checks.

Hooks always get tensors; these functions take and return gradients as the task has them, arrays or tensors.
"""

from __future__ import annotations

from typing import Any

from ..declare.op import RAW, RECORD
from ..graph.hooks import NodeExtra
from ..graph.node import Node
from ..history.anomaly import check_nan
from ..tensor import wrap
from ..thread_state import THREAD, user_code
from .grad_buffers import as_array
from .hook_calls import call_post_hooks, call_pre_hooks, call_tensor_hooks
from .task_state import TaskState


def run_with_hooks(task: TaskState, node: Node, g: Any, need: int, extra: NodeExtra) -> Any:
    """Runs pre-hooks, the node and post-hooks."""
    on_tensors, create_graph = task.on_tensors, task.create_graph
    gs = tuple([to_tensor(task, x) for x in g]) if node.outputs != 1 else (to_tensor(task, g),)
    if extra.pre:
        with user_code(create_graph):
            gs = call_pre_hooks(node, gs)
        g = [from_tensor(task, x) for x in gs] if node.outputs != 1 else from_tensor(task, gs[0])
    if not node.materialize and all(x is None for x in gs):  # the hooks removed the gradients
        grads: Any = (None,) * len(node.edges)
    else:
        grads = node.run_recorded(g, need, not task.keep) if on_tensors else node.run_raw(g, need, not task.keep)
    extra = node.extra or extra  # a pre-hook may have registered the first post-hook
    if extra.post:
        shapes = node.shapes or (None,) * len(grads)
        sum_to = RECORD.sum_to if on_tensors else RAW.sum_to
        grads = [x if x is None or s is None or x.shape == s else sum_to(x, s)
                 for x, s in zip(grads, shapes, strict=False)]
        shown = node.shown or range(len(grads))
        with user_code(create_graph):
            done = call_post_hooks(node, tuple([to_tensor(task, grads[i]) for i in shown]), gs)
        by_input = dict(zip(shown, done, strict=True))
        grads = tuple([from_tensor(task, by_input.get(i)) for i in range(len(grads))])
    if THREAD.state.anomaly:
        check_nan(node, grads)
    return grads


def run_tensor_hooks(task: TaskState, node: Node, g: Any) -> Any:
    """Runs the tensor hooks and retain_grad of each output of `node`."""
    extra = node.extra
    assert extra is not None
    if not extra.tensor and not extra.retained:
        return g
    if task.watched:
        task.current = node
    with user_code(task.create_graph):
        if node.outputs == 1:
            return from_tensor(task, call_tensor_hooks(node, 0, to_tensor(task, g)))
        return [from_tensor(task, call_tensor_hooks(node, nr, to_tensor(task, x))) for nr, x in enumerate(g, 1)]


def run_leaf_pre_hooks(task: TaskState, leaf: Node, g: Any) -> Any:
    """Runs the pre-hooks of an AccumulateGrad."""
    with user_code(task.create_graph):
        return from_tensor(task, call_pre_hooks(leaf, (to_tensor(task, g),))[0])


def to_tensor(task: TaskState, g: Any) -> Any:
    return g if task.on_tensors or g is None else wrap(as_array(g))


def from_tensor(task: TaskState, g: Any) -> Any:
    return g if task.on_tensors or g is None else g._array
