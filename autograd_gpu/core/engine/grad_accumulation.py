"""Rules that add into an existing gradient, in place of an array of their own and a sum: see `add_<input>` in op.py.

There are two such gradients: a leaf's `.grad`, and the sum that a task makes for a node of which the others are views.
"""

from __future__ import annotations

from typing import Any

from ... import backend
from ..graph.node import Node
from ..graph.storage import before_write, bump_version
from ..tensor import Tensor
from .observers import report_node
from .task_state import TaskState


def run_adding(task: TaskState, node: Node, g: Any, need: int) -> tuple[Any, ...]:
    """Runs `node`; its rules add where they can, and answer None there."""
    if node.shows_memory:
        whole: Any = node.edges[0]
        sums = {0: task.buffers[whole]} if node.nrs is None else {}
        return node.run_adding(g, need, not task.keep, sums)
    into = _addable_grads(task, node, g, need)
    return _run_into_grads(task, node, g, need, into) if into else node.run_raw(g, need, not task.keep)


def _addable_grads(task: TaskState, node: Node, g: Any, need: int) -> dict[int, Tensor]:
    """Input -> its leaf's `.grad`, where the node's rule can add into it: the leaf waits for nothing else.

    Not with a hook, which wants to see what arrives, nor where the user gave the `.grad` itself as `g`: the node's
    other rules have yet to read it.
    """
    found: dict[int, Tensor] = {}
    for i in node.adds:
        leaf: Any = node.edges[i]
        sole = need >> i & 1 and task.leaves.get(leaf) == 1 and leaf not in task.buffers
        grad = leaf.addable_grad() if sole and leaf.extra is None else None
        if grad is not None and not backend.may_share_memory(grad._array, g):
            found[i] = grad
    return found


def _run_into_grads(task: TaskState, node: Node, g: Any, need: int, into: dict[int, Tensor]) -> tuple[Any, ...]:
    """Runs `node`, whose rules do for the gradients `into` what their leaves' AccumulateGrad would have done."""
    before_write(into.values())
    try:
        grads = node.run_adding(g, need, not task.keep, {i: grad._array for i, grad in into.items()})
    finally:  # of two sums, the first is made if memory runs out in the second
        for grad in into.values():
            bump_version(grad)
    if task.watched:
        for i, grad in into.items():
            leaf: Any = node.edges[i]
            report_node(leaf, grad, 0)
    return grads
