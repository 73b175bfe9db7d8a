"""The engine of a group with one process: no MPI is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..reduce_op import ReduceOp
from .base import Finished


class SerialEngine:
    """Copies arrays, as what a single rank sends goes to itself."""

    rank, size = 0, 1
    calls = sent = 0

    def _copied(self, out: Any, array: Any) -> Finished:
        self.calls += 1
        if out is not array:
            out[...] = array
        return Finished()

    def all_reduce(self, array: Any, op: ReduceOp) -> Finished:
        return self._copied(array, array)

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> Finished:
        return self._copied(out, array)

    def all_gather(self, out: Any, array: Any) -> Finished:
        return self._copied(out, array)

    def all_to_all(self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]) -> Finished:
        return self._copied(out, array)

    def broadcast(self, array: Any, src: int) -> Finished:
        return self._copied(array, array)

    def gather(self, out: Any, array: Any, dst: int) -> Finished:
        return self._copied(out, array)

    def scatter(self, out: Any, array: Any, src: int) -> Finished:
        return self._copied(out, array)

    def send(self, array: Any, dst: int, tag: int) -> Finished:
        raise ValueError("send: a process cannot send to itself, and there is no other one in the group")

    def recv(self, array: Any, src: int, tag: int) -> Finished:
        raise ValueError("recv: a process cannot receive from itself, and there is no other one in the group")

    def barrier(self) -> Finished:
        self.calls += 1
        return Finished()

    def advance(self) -> None: ...

    def split(self, ranks: Sequence[int]) -> SerialEngine | None:
        return SerialEngine() if list(ranks) == [0] else None
