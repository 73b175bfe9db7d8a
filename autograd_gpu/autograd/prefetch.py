"""What backward will ask for next: nodes run from the last to the first, whichever thread runs them.

When a node unpacks, what the next `ahead` nodes saved is prefetched. What two of these share, as a relu and the layer
behind it do, is held from one to the other, and what a backward passes over is forgotten.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from typing import Any, Protocol

from ..core.engine.task_state import TaskState, final_callbacks_of, running_task

_FEW = 64


class Packed(Protocol):
    """What was packed, and can be made ready before it is unpacked."""

    def prefetch(self) -> None: ...

    def forget(self) -> None:
        """Undoes prefetch."""


class _Window:
    """What the running node of one task and those behind it need: when, and what was unpacked of it before."""

    __slots__ = ("coming", "found", "nodes")

    def __init__(self, task: TaskState) -> None:
        self.nodes = {node.sequence_nr for node in task.nodes}
        self.coming: dict[Packed, int] = {}
        self.found: dict[Packed, Any] = {}

    def close(self) -> None:
        """Forgets what the backward that ends here did not get to."""
        self.move({}, -1)

    def move(self, coming: dict[Packed, int], node_seq: int) -> None:
        """Node `node_seq` runs, and `coming` is what those behind it need."""
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
    """What nodes saved, by their sequence numbers."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.lock = threading.RLock()
        self.seqs: list[int] = []  # ascending
        self.saved: list[weakref.ref[Packed]] = []  # by these nodes
        self.room = _FEW  # of `saved`, before what is gone is thrown out

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
        """What the next `ahead` of `nodes` hold of what they saved, and the first of them that does."""
        found: dict[Packed, int] = {}
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
                    found.setdefault(packed, seq)
            if gone > _FEW:
                self._clean()
        return found

    def advance(self, node_seq: int) -> None:
        """Node `node_seq` unpacks one of its tensors now, if a backward runs: else somebody just looks at it."""
        task = running_task()
        if not self.ahead or task is None:
            return
        windows = final_callbacks_of(task).prefetch_windows
        window = windows.get(self)
        if window is None:
            window = windows[self] = _Window(task)
        window.move(self.before(node_seq, window.nodes), node_seq)

    def hold(self, packed: Packed, node_seq: int, found: Any) -> None:
        """Node `node_seq` has unpacked `found`: kept for the next node that needs it, if that is soon."""
        task = running_task()
        window = final_callbacks_of(task).prefetch_windows.get(self) if self.ahead and task is not None else None
        if window is not None:
            if window.coming.get(packed, node_seq) == node_seq:
                window.found.pop(packed, None)
            else:
                window.found[packed] = found
