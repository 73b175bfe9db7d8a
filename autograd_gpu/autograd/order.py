"""What backward will ask for next: nodes run from the last to the first, whichever thread runs them.

When a node unpacks, what the next `ahead` nodes saved is prefetched. What two of these share, as a relu and the layer
behind it do, is held from one to the other, and what a backward passes over is forgotten.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from typing import Any, Protocol

from ..core.late import late_of, running_task


class Packed(Protocol):
    """What was packed, and can be made ready before it is unpacked."""

    def prefetch(self) -> None: ...

    def forget(self) -> None:
        """Undoes prefetch."""


class _Soon:
    """When a thread's backward needs what was packed: at node `seq`; and what was unpacked of it before."""

    __slots__ = ("found", "seq")

    def __init__(self, seq: int) -> None:
        self.seq, self.found = seq, None


class _Window(threading.local):
    def __init__(self) -> None:
        self.soon: weakref.WeakKeyDictionary[Packed, _Soon] = weakref.WeakKeyDictionary()


class Order:
    """What nodes saved, by their sequence numbers."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.lock = threading.RLock()
        self.saves: list[tuple[int, weakref.ref[Packed]]] = []
        self.room = 64  # of `saves`, before what is gone is thrown out
        self._window = _Window()

    def add(self, node_seq: int, packed: Packed) -> None:
        if not self.ahead:
            return
        with self.lock:
            if len(self.saves) >= self.room:
                self.saves = [save for save in self.saves if save[1]() is not None]
                self.room = max(64, 2 * len(self.saves))
            bisect.insort(self.saves, (node_seq, weakref.ref(packed)), key=lambda save: save[0])

    def before(self, node_seq: int) -> dict[Packed, int]:
        """What the next `ahead` nodes hold of what they saved, and the first of them that does."""
        found: dict[Packed, int] = {}
        seen: set[int] = set()
        with self.lock:
            for i in range(bisect.bisect_left(self.saves, node_seq, key=lambda save: save[0]) - 1, -1, -1):
                seq, ref = self.saves[i]
                packed = ref()
                if packed is None:
                    continue
                seen.add(seq)
                if len(seen) > self.ahead:
                    break
                found.setdefault(packed, seq)
        return found

    def advance(self, node_seq: int) -> None:
        """Node `node_seq` unpacks one of its tensors now, if a backward runs: else somebody just looks at it."""
        task = running_task()
        if not self.ahead or task is None:
            return
        coming, soon = self.before(node_seq), self._window.soon
        for packed, entry in list(soon.items()):
            if packed not in coming and entry.seq != node_seq:
                del soon[packed]
                packed.forget()
        for packed, seq in coming.items():
            if packed not in soon:
                soon[packed] = _Soon(seq)
                late_of(task).ends.add(self.finish)
            if soon[packed].found is None:
                packed.prefetch()

    def finish(self) -> None:
        """Forgets what the backward that ends here did not get to."""
        soon = self._window.soon
        for packed in list(soon):
            packed.forget()
        soon.clear()

    def hold(self, packed: Packed, node_seq: int, found: Any) -> None:
        """Node `node_seq` has unpacked `found`: kept for the next node that needs it, if that is soon."""
        entry = self._window.soon.get(packed)
        if entry is None:
            return
        coming = self.before(node_seq).get(packed)
        if coming is None:
            del self._window.soon[packed]
        else:
            entry.seq, entry.found = coming, found
