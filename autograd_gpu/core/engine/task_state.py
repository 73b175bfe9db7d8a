"""TaskState: the state of one call of backward or grad, for the modules that run its nodes."""

from __future__ import annotations

from typing import Any

from ..graph.node import Node
from ..tensor import Tensor
from ..thread_state import THREAD, RunningTask
from .final_callbacks import FinalCallbacks

# A gradient at which backward starts, at output `nr` of a node: (node, nr, gradient).
Root = tuple[Node, int, Tensor]
# An input of grad(): (node, nr, like), where `like` has the shape and dtype of the tensor at that edge.
Capture = tuple[Node, int, Any]


class TaskState(RunningTask):
    """The state of one call of backward or grad."""

    __slots__ = (
        "accumulate", "beyond", "buffers", "captures", "create_graph", "final_callbacks", "floor", "keep", "leaves",
        "needs", "nodes", "on_tensors", "only", "owned", "prune", "results", "root", "used", "watched", "watchers",
        "xp",
    )  # fmt: skip

    watched: object  # true if observers are notified of each node; set when the task runs

    def __init__(
        self, captures: list[Capture] | None, accumulate: bool, keep: bool, on_tensors: bool, create_graph: bool,
        only: set[Node] | None,
    ) -> None:
        self.accumulate, self.keep = accumulate, keep
        self.on_tensors = on_tensors  # whether gradients are tensors and rules run on them
        self.create_graph = create_graph  # whether that is recorded
        self.only = only  # the leaves of backward(inputs=...)
        self.root: Node | None = None  # a single root: its tensor hooks run even if it leads to no input
        self.current = None
        self.final_callbacks: FinalCallbacks | None = None
        self.buffers: dict[Node, Any] = {}  # gradient so far: one value, or a list for several outputs
        self.owned: set[Any] = set()  # buffers that this task made and may add into
        self.nodes: list[Node] = []  # ascending by sequence number, leaves excluded
        self.leaves: dict[Node, int] = {}  # contributions that AccumulateGrad nodes still wait for
        self.prune = False  # whether some reached leaf is not captured
        self.needs: dict[Node, int] | None = None  # exec_info; None: every node's mask
        self.used: set[tuple[Node, int]] | None = None  # edges reached through ZERO
        self.beyond: set[Node] | tuple[()] = ()  # nodes that only ZERO edges reach
        self.watchers: set[Node] | tuple[()] = ()  # nodes that run although nothing behind them is needed
        self.captures: dict[Node, list[tuple[int, int]]] = {}  # node -> positions in `results`, with output numbers
        self.floor = 0
        if captures:
            self.results: list[Any] = [None] * len(captures)
            captured = self.captures
            floor = captures[0][0].topological_nr
            for i, (node, nr, _) in enumerate(captures):
                depth = node.topological_nr
                if depth < floor:
                    floor = depth
                if depth == 0:
                    captured[node] = []  # a leaf's gradient is read at the end, from its buffer
                elif node in captured:
                    captured[node].append((i, nr))
                else:
                    captured[node] = [(i, nr)]
            self.floor = 0 if only else floor


def final_callbacks_of(task: TaskState) -> FinalCallbacks:
    """The final callbacks of `task`, created at their first use."""
    if task.final_callbacks is None:
        task.final_callbacks = FinalCallbacks()
    return task.final_callbacks


def running_task() -> TaskState | None:
    """The innermost task that runs on this thread, or None."""
    task = THREAD.state.task
    return task if isinstance(task, TaskState) else None


def will_reach(task: TaskState, node: Node, nr: int) -> bool:
    """Whether `task` expects a gradient for output `nr` (as Tensor._nr) of `node`, as far as its plan shows."""
    if node.topological_nr == 0:
        return node in task.leaves if task.accumulate else node in task.captures
    final = final_callbacks_of(task)
    if final.reachable is None:
        final.reachable = set(task.nodes)
    if node not in final.reachable:
        return False
    needed = bool(node.mask) if task.needs is None else node in task.needs
    return needed or node in task.captures or node in task.watchers
