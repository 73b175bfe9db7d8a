"""What a task does when its work is done: callbacks that were queued during it, and gathered gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..thread_state import NESTING, user_code

if TYPE_CHECKING:
    from ..graph.node import Node
    from .task import GraphTask


class Late:
    """Made when a user's code, or a prefetch, first leaves something for the end of its task."""

    __slots__ = ("callbacks", "gathered", "reached", "windows")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], Any]] = []
        self.gathered: dict[Any, Any] = {}  # whoever gathers -> what it has so far, which knows `finish()`
        self.reached: set[Node] | None = None  # the task's nodes, leaves excluded
        self.windows: dict[Any, Any] = {}  # whoever prefetches -> what is under way; the end calls `close()`, always

    def close(self) -> None:
        """When the task has ended, also by an error."""
        for window in self.windows.values():
            window.close()

    def run(self, task: GraphTask) -> None:
        """The gradients that were waited for and did not come; then the callbacks, and those that they queue."""
        task.current = None
        with user_code(task.recording):
            for gathered in list(self.gathered.values()):
                gathered.finish()
            for callback in self.callbacks:  # grows meanwhile
                callback()


def late_of(task: GraphTask) -> Late:
    if task.late is None:
        task.late = Late()
    return task.late


def running_task() -> GraphTask | None:
    """The innermost task that runs on this thread."""
    return NESTING.here.task


def will_reach(task: GraphTask, node: Node, nr: int) -> bool:
    """Whether a gradient is to come to output `nr` (as Tensor._nr) of `node`: as far as can be known before it has."""
    if node.topological_nr == 0:
        return node in task.leaves if task.accumulate else node in task.captures
    late = late_of(task)
    if late.reached is None:
        late.reached = set(task.nodes)
    if node not in late.reached:
        return False
    needed = bool(node.mask) if task.needs is None else node in task.needs
    return needed or node in task.captures or node in task.watchers
