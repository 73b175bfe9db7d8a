"""Adds gradients to leaves, by their AccumulateGrad or by rules that add into an existing gradient: `add_<input>`.

Rules can add into two kinds of gradients: the `.grad` of a leaf, and the buffer in which a task sums the gradients of
a node that the running node made a view of.
"""

from __future__ import annotations

from typing import Any

from ... import backend
from ...modes import MODES
from ..declare.op import RECORD
from ..graph.leaf import AccumulateGrad
from ..graph.node import Node
from ..graph.storage import before_write, bump_version
from ..saved.saved_tensor import plain
from ..tensor import Tensor
from ..thread_state import user_code
from .grad_buffers import dense_order, inverse, lies_as
from .hook_calls import call_post_accumulate_hooks, call_post_hooks
from .observers import report_node
from .task_state import TaskState


def run_adding(task: TaskState, node: Node, g: Any, need: int) -> tuple[Any, ...]:
    """Runs `node`; rules that can add into an existing gradient do so and return None."""
    if node.shows_memory:
        whole: Any = node.edges[0]
        sums = {0: task.buffers[whole]} if node.nrs is None else {}
        return node.run_adding(g, need, not task.keep, sums)
    into = _addable_grads(task, node, g, need)
    return _run_into_grads(task, node, g, need, into) if into else node.run_raw(g, need, not task.keep)


def _addable_grads(task: TaskState, node: Node, g: Any, need: int) -> dict[int, Tensor]:
    """Maps each input whose rule can add into its leaf's `.grad` to that: the leaf waits for no other gradient.

    Excludes leaves with hooks, since a hook needs the gradient, and a `.grad` that shares memory with `g`, since the
    node's other rules still read that.
    """
    grads: dict[int, Tensor] = {}
    for i in node.adds:
        leaf: Any = node.edges[i]
        sole = need >> i & 1 and task.leaves.get(leaf) == 1 and leaf not in task.buffers
        grad = leaf.addable_grad() if sole and leaf.extra is None else None
        if grad is not None and not backend.may_share_memory(grad._array, g):
            grads[i] = grad
    return grads


def _run_into_grads(task: TaskState, node: Node, g: Any, need: int, into: dict[int, Tensor]) -> tuple[Any, ...]:
    """Runs `node`; its rules add to the gradients in `into`, instead of the leaves' AccumulateGrad."""
    before_write(into.values())
    try:
        grads = node.run_adding(g, need, not task.keep, {i: grad._array for i, grad in into.items()})
    finally:  # if memory runs out in the second of two sums, the first was written
        for grad in into.values():
            bump_version(grad)
    if task.watched:
        for i, grad in into.items():
            leaf: Any = node.edges[i]
            report_node(leaf, grad, 0)
    return grads


def _cloned(g: Tensor, like: Any) -> Tensor:
    """Makes a recorded copy of `g` with the layout of the leaf's array `like`."""
    if lies_as(g._array, like):
        return RECORD.clone(g)
    order = dense_order(like, g.shape)
    if order is None:
        return RECORD.contiguous_copy(g)
    return plain(RECORD.permute(RECORD.contiguous_copy(RECORD.permute(g, order)), inverse(order)))


def accumulate(
    leaf: AccumulateGrad, variable: Tensor | None, g: Tensor, on_tensors: bool, create_graph: bool
) -> None:
    """Adds `g` to the leaf's `.grad`, then runs the leaf's hooks. Unless `on_tensors`, the leaf may take over `g`."""
    if variable is not None and variable._fn is None:
        variable = None  # does not require grad any more
    if variable is not None:
        if not on_tensors:
            leaf.accumulate(variable, g, False)
        elif not create_graph and MODES.stack and MODES.stack[-1].is_trace:
            MODES.stack[-1].accumulate(leaf, variable, _cloned(g, variable._array))
        else:
            leaf.accumulate(variable, _cloned(g, variable._array), True)
    extra = leaf.extra
    if extra is not None and (extra.post or extra.post_accumulate):
        with user_code(create_graph):
            if variable is not None:
                call_post_accumulate_hooks(leaf, variable)
            call_post_hooks(leaf, (), (g,))
        if extra.stands_in and not on_tensors:
            extra.leaf._grad = variable._grad  # type: ignore[union-attr]
