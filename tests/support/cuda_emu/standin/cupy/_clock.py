"""Who may touch what when: vector clocks over streams and the host, checked when work is enqueued.

1. Every operation has a number in its queue and a clock: for each other queue, up to which number that queue's work
   is known to be finished before this operation starts. An event carries the clock of the place where it was recorded.
2. Waiting joins clocks: a queue that waits for an event takes over the event's, and so does the host when it
   synchronises; what the host knows to be finished comes before all that it enqueues from then on.
3. Every block lists the accesses of unfinished work. A new access that overlaps an older one, one of them writing, must
   come after it by the clocks; else the two are a race, whatever the machine happens to do this time.
4. When the host knows everything to be finished, an epoch ends: clocks start again at nothing, older accesses count for
   nothing any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import RaceError

_HERE = os.path.dirname(os.path.dirname(__file__))
Clock = dict[int, int]  # queue id -> number of its last finished operation
Access = tuple  # (block, low, high, NumPy view of it, writes)


class _Host:
    """What the host knows to be finished; `version` counts what it has learned."""

    def __init__(self) -> None:
        self.clock: Clock = {}
        self.version = self.epoch = 0


HOST = _Host()


class Operation:
    __slots__ = ("clock", "epoch", "number", "queue", "run", "what", "where")

    def __init__(self, queue: Any, number: int, clock: Clock, run: Callable[[], Any], what: str,
                 where: tuple[str, int] | None = None) -> None:
        self.queue, self.number, self.clock, self.what = queue, number, clock, what
        self.run: Callable[[], Any] | None = run
        self.epoch = HOST.epoch
        self.where = caller() if where is None else where

    def __str__(self) -> str:
        return f"{self.what} on {self.queue} (enqueued at {location(self.where)})"

    def precedes(self, queue: Any, clock: Clock) -> bool:
        """Whether this operation is finished before one that `queue` runs with `clock`."""
        return self.queue is queue or self.epoch < HOST.epoch or clock.get(self.queue.id, 0) >= self.number


def caller() -> tuple[str, int]:
    """File and line of the innermost frame that is not the stand-in's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def location(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"


def joined(clock: Clock, other: Clock) -> Clock:
    """The later of the two for each queue; a clock in use is never changed, since operations share it."""
    if not other:
        return clock
    return {**clock, **{queue: max(number, clock.get(queue, 0)) for queue, number in other.items()}}


def host_learns(clock: Clock) -> None:
    HOST.clock = joined(HOST.clock, clock)
    HOST.version += 1


def end_epoch() -> None:
    HOST.clock, HOST.epoch, HOST.version = {}, HOST.epoch + 1, HOST.version + 1


def check(accesses: Sequence[Access], operation: Operation, lists: Callable[[Any], list]) -> None:
    """RaceError if one of `accesses` conflicts with an older one of lists(block)."""
    queue, clock = operation.queue, operation.clock
    for block, low, high, raw, writes in accesses:
        if block is None:  # no elements
            continue
        for old_low, old_high, old_raw, old_writes, old in lists(block):
            touching = (writes or old_writes) and low < old_high and old_low < high
            if not touching or old.precedes(queue, clock):
                continue
            if operation.precedes(old.queue, old.clock):  # a table is read when its kernel runs, behind later calls
                continue
            if overlap(raw, old_raw):
                _report(operation, writes, old, old_writes, block)


def check_birth(accesses: Sequence[Access], operation: Operation) -> None:
    """RaceError if one of `accesses` is not behind what its block's stream had to do when the block was allocated: the
    pool may have given it memory that this work still uses."""
    for block, *_ in accesses:
        if block is None or block.home is operation.queue or block.epoch != HOST.epoch:
            continue
        if operation.clock.get(block.home.id, 0) < block.born:
            raise RaceError(
                f"race: {operation} uses memory that was allocated on {block.home}, whose earlier work may still use "
                f"it ({block}); wait for an event that is recorded there after the allocation"
            )


def record(accesses: Sequence[Access], operation: Operation, lists: Callable[[Any], list]) -> None:
    """Adds `accesses`, and drops the older ones that they stand for: ordered before, covered, no stronger."""
    queue, clock, epoch = operation.queue, operation.clock, HOST.epoch
    for block, low, high, raw, writes in accesses:
        if block is None:
            continue
        entries = lists(block)
        if entries:
            dense = high - low == raw.nbytes
            entries[:] = [
                old for old in entries
                if old[4].epoch == epoch and not (
                    (writes or not old[3]) and low <= old[0] and old[1] <= high
                    and (dense or same_view(raw, old[2])) and old[4].precedes(queue, clock)
                )
            ]  # fmt: skip
        entries.append((low, high, raw, writes, operation))


def same_view(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.strides == b.strides


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two views have a byte in common: exactly, where that can be found out quickly (columns of a matrix)."""
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def span(raw: np.ndarray, ptr: int) -> tuple[int, int]:
    """The addresses from the first byte of an array up to the end of the last."""
    if raw.flags.forc:
        return ptr, ptr + raw.nbytes
    if not raw.size:
        return ptr, ptr
    reach = [(size - 1) * stride for size, stride in zip(raw.shape, raw.strides, strict=True)]
    return ptr + sum(r for r in reach if r < 0), ptr + sum(r for r in reach if r > 0) + raw.itemsize


def _report(new: Operation, writes: bool, old: Operation, old_writes: bool, block: Any) -> None:
    verbs = ("reads", "writes")
    raise RaceError(
        f"race: {new} {verbs[writes]} what {old} {verbs[old_writes]}, and nothing orders the two ({block}); record an "
        "event behind the earlier one and let the later one's stream wait for it"
    )
