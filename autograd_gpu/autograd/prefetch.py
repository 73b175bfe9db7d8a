"""Prefetching of saved tensors in backward, which runs nodes in descending order of their sequence numbers.

When a node unpacks a tensor, the tensors saved by the next `ahead` nodes are prefetched. A tensor that two of these
nodes share, such as a relu and the next layer, is held from one to the other. Tensors of nodes that a backward skips
are released.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from typing import Any, Protocol

from ..core.engine.task_state import TaskState, final_callbacks_of, running_task

_FEW = 64


class Packed(Protocol):
    """A packed tensor that can be prefetched."""

    def prefetch(self) -> None: ...

    def forget(self) -> None:
        """Cancels a prefetch."""


class _Window:
    """The prefetch window of a task: packed tensors of the next nodes, and the arrays unpacked from them so far."""

    __slots__ = ("coming", "found", "nodes")

    def __init__(self, task: TaskState) -> None:
        self.nodes = {node.sequence_nr for node in task.nodes}
        self.coming: dict[Packed, int] = {}
        self.found: dict[Packed, Any] = {}

    def close(self) -> None:
        """Releases prefetched tensors that the backward, which ends, did not use."""
        self.move({}, -1)

    def move(self, coming: dict[Packed, int], node_seq: int) -> None:
        """Moves the window to node `node_seq`; `coming` maps the tensors of the next nodes to their first user."""
        due = {}
        for packed, seq in self.coming.items():
            if packed not in coming:
                if seq == node_seq:
                    due[packed] = seq
                else:
                    self.found.pop(packed, None)
                    packed.forget()
        for packed in coming:
            if packed not in self.found:
                packed.prefetch()
        self.coming = {**due, **coming}


class Order:
    """The packed tensors by the sequence numbers of the nodes that saved them."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.lock = threading.RLock()
        self.seqs: list[int] = []  # ascending
        self.saved: list[weakref.ref[Packed]] = []  # parallel to seqs
        self.room = _FEW  # entries of `saved` before dead ones are removed

    def add(self, node_seq: int, packed: Packed) -> None:
        if not self.ahead:
            return
        with self.lock:
            if len(self.seqs) >= self.room:
                self._clean()
            i = bisect.bisect_right(self.seqs, node_seq)
            self.saved.insert(i, weakref.ref(packed))
            self.seqs.insert(i, node_seq)

    def _clean(self) -> None:
        living = [(seq, ref) for seq, ref in zip(self.seqs, self.saved, strict=True) if ref() is not None]
        self.seqs, self.saved = [seq for seq, _ in living], [ref for _, ref in living]
        self.room = max(_FEW, 2 * len(living))

    def before(self, node_seq: int, nodes: set[int]) -> dict[Packed, int]:
        """The live tensors saved by the next `ahead` of `nodes`, with the sequence number of the first user."""
        users: dict[Packed, int] = {}
        seen: set[int] = set()
        gone = 0
        with self.lock:
            for i in range(bisect.bisect_left(self.seqs, node_seq) - 1, -1, -1):
                seq, packed = self.seqs[i], self.saved[i]()
                if packed is None:
                    gone += 1
                elif seq in nodes:
                    seen.add(seq)
                    if len(seen) > self.ahead:
                        break
                    users.setdefault(packed, seq)
            if gone > _FEW:
                self._clean()
        return users

    def advance(self, node_seq: int) -> None:
        """Called when node `node_seq` unpacks a tensor; prefetches for the next nodes if a backward is running."""
        task = running_task()
        if not self.ahead or task is None:
            return
        windows = final_callbacks_of(task).prefetch_windows
        window = windows.get(self)
        if window is None:
            window = windows[self] = _Window(task)
        window.move(self.before(node_seq, window.nodes), node_seq)

    def hold(self, packed: Packed, node_seq: int, value: Any) -> None:
        """Called after node `node_seq` has unpacked `value`; holds it for the next node in the window that needs it."""
        task = running_task()
        window = final_callbacks_of(task).prefetch_windows.get(self) if self.ahead and task is not None else None
        if window is not None:
            if window.coming.get(packed, node_seq) == node_seq:
                window.found.pop(packed, None)
            else:
                window.found[packed] = value
