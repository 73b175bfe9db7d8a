"""What a task does when its work is done: callbacks that were queued during it, and gathered gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node
from ..thread_state import user_code


class FinalCallbacks:
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

    def run(self, recording: bool) -> None:
        """The gradients that were waited for and did not come; then the callbacks, and those that they queue."""
        with user_code(recording):
            for gathered in list(self.gathered.values()):
                gathered.finish()
            for callback in self.callbacks:  # grows meanwhile
                callback()
