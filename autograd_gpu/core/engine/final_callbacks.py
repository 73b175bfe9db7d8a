"""What a task does at its end: queued callbacks, hooks that wait for several gradients, open prefetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node
from ..thread_state import user_code


class FinalCallbacks:
    """What is left to do at the end of one task. Made when it is first needed."""

    __slots__ = ("callbacks", "gathered", "prefetch_windows", "reachable")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], Any]] = []
        self.gathered: dict[Any, Any] = {}  # by collector, what it has so far, with a method `finish()`
        self.reachable: set[Node] | None = None  # the task's nodes, leaves excluded
        self.prefetch_windows: dict[Any, Any] = {}  # by prefetcher, what is under way; closed at the end in any case

    def close(self) -> None:
        """Closes the prefetches. Runs when the task has ended, also after an error."""
        for window in self.prefetch_windows.values():
            window.close()

    def run(self, recording: bool) -> None:
        """Finishes what waits for gradients that did not come; then runs the callbacks, and those that they queue."""
        with user_code(recording):
            for gathered in list(self.gathered.values()):
                gathered.finish()
            for callback in self.callbacks:  # grows meanwhile
                callback()
