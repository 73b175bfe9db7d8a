"""The interface of an engine: collectives on flat arrays, each of which is begun and then advanced until it is done.

An engine belongs to a group of processes, numbered from 0 to `size` - 1; this one is `rank`. Arrays are contiguous and
have one dimension; a result is written into an array that the caller gives. All ranks of a group begin the same
collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..reduce_op import ReduceOp

ANY_SOURCE = -1  # for `Engine.recv`
TAGS = 1 << 15  # the tags of messages that every MPI has


class Request(Protocol):
    """A collective under way."""

    source: int | None  # from which rank `recv` has received

    def done(self) -> bool:
        """Advances it, without waiting, and returns whether its results are in their arrays, in the device's order."""

    def join(self) -> None:
        """Makes what the caller does next with the arrays come after the collective; called when `done` is true."""


class Engine(Protocol):
    """The collectives of one group. `calls` and `sent` count them, and the bytes that they send to other ranks."""

    rank: int
    size: int

    @property
    def calls(self) -> int: ...

    @property
    def sent(self) -> int: ...

    def all_reduce(self, array: Any, op: ReduceOp) -> Request:
        """Replaces `array` by the reduction of the arrays of all ranks."""

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> Request:
        """Fills `out` with part `rank` of the reduction of `array`, which has `size` equal parts."""

    def all_gather(self, out: Any, array: Any) -> Request:
        """Fills `out` with the arrays of all ranks, one after the other; they have equal sizes."""

    def all_to_all(self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]) -> Request:
        """Sends sent[i] elements to each rank i, and fills `out` with received[i] elements from it, in their order."""

    def broadcast(self, array: Any, src: int) -> Request:
        """Replaces `array` by that of rank `src`."""

    def gather(self, out: Any, array: Any, dst: int) -> Request:
        """Fills `out`, None but on rank `dst`, with the arrays of all ranks."""

    def scatter(self, out: Any, array: Any, src: int) -> Request:
        """Fills `out` with part `rank` of `array`, None but on rank `src`."""

    def send(self, array: Any, dst: int, tag: int) -> Request:
        """Sends `array` to rank `dst`."""

    def recv(self, array: Any, src: int, tag: int) -> Request:
        """Fills `array` with what rank `src`, or ANY_SOURCE, sends with that tag."""

    def barrier(self) -> Request:
        """Is done when all ranks have begun it."""

    def advance(self) -> None:
        """Advances everything under way, without waiting."""

    def split(self, ranks: Sequence[int]) -> Engine | None:
        """The engine of the ranks `ranks` of this group, in that order; None on others. All ranks call it."""


class Finished:
    """A request that is done."""

    source: int | None = None

    def done(self) -> bool:
        return True

    def join(self) -> None: ...
