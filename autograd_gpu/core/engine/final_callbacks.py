"""Runs the end of a task: queued callbacks, hooks that wait for several gradients, open prefetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import Node
from ..thread_state import user_code


class FinalCallbacks:
    """The work to do at the end of one task. Created at its first use."""

    __slots__ = ("callbacks", "gathered", "prefetch_windows", "reachable")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], Any]] = []
        self.gathered: dict[Any, Any] = {}  # collector -> its gradients so far, an object with a method `finish()`
        self.reachable: set[Node] | None = None  # the task's nodes, leaves excluded
        self.prefetch_windows: dict[Any, Any] = {}  # prefetcher -> its pending copies; always closed at the end

    def close(self) -> None:
        """Closes the prefetches. Called when the task has ended, also after an error."""
        for window in self.prefetch_windows.values():
            window.close()

    def run(self, recording: bool) -> None:
        """Finishes collectors that still wait for gradients, then runs the callbacks and those that they queue."""
        with user_code(recording):
            for gathered in list(self.gathered.values()):
                gathered.finish()
            for callback in self.callbacks:  # callbacks may append to it
                callback()
