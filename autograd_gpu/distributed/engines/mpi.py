"""The engine over MPI: arrays in host memory, as bytes. MPI moves them, NumPy reduces them.

Reductions are summed here, in the order of the ranks: the result has equal bits in every run, with every MPI, and half
precisions, which MPI does not know, travel in two bytes. A large all-reduce exchanges parts, reduces one on each rank
and gathers the results, which sends the least bytes possible, 2 (size - 1) / size of the array; a small one gathers
all arrays, which takes one exchange less.

Every collective is a non-blocking one, which is polled: MPI's blocking calls spin, and they cannot time out. Its
second exchange goes over a communicator of its own: there all ranks begin exchanges in the order of the collectives,
whatever they began on the first one meanwhile.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ..reduce_op import ReduceOp, fold
from .base import ANY_SOURCE

SMALL = 1 << 15  # bytes from all other ranks up to which an all-reduce gathers the arrays
Exchanges = Generator[Any, None, None]  # begins exchanges, yields each, and goes on when it is complete


class MPIRequest:
    """A collective whose exchanges follow one another."""

    source: int | None = None
    finished = False
    error: Exception | None = None  # of MPI: `done` raises it

    def __init__(self, engine: MPIEngine, exchanges: Exchanges, count: int, status: Any) -> None:
        self.engine, self.exchanges, self.status = engine, exchanges, status
        self.exchange, self.left = next(exchanges), count - 1  # exchanges that are still to begin

    def step(self, may_begin: bool) -> None:
        """Goes on as far as it can; with `may_begin` also to its second exchange."""
        while self.exchange.Test(self.status):
            if self.left == 0:
                next(self.exchanges, None)  # what follows the last exchange
                self.source = self.status and self.status.Get_source()
                self.finished = True
                return
            if not may_begin:
                return
            self.exchange, self.left = next(self.exchanges), self.left - 1

    def done(self) -> bool:
        if not self.finished:
            self.engine.advance()
        if self.error is not None:
            raise self.error
        return self.finished

    def join(self) -> None: ...


class MPIEngine:
    """The collectives of a communicator, on NumPy arrays."""

    def __init__(self, comm: Any) -> None:
        self.mpi: Any = importlib.import_module("mpi4py.MPI")
        self.comm, self.second = comm, comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.under_way: list[MPIRequest] = []  # in the order in which they began
        self.calls = self.sent = 0

    def _begin(self, exchanges: Exchanges, sent: int, count: int = 1, status: Any = None) -> MPIRequest:
        request = MPIRequest(self, exchanges, count, status)
        self.under_way.append(request)
        self.calls += 1
        self.sent += sent
        return request

    def advance(self) -> None:
        may_begin = True  # the second exchanges begin in the order of the collectives
        for request in tuple(self.under_way):
            try:
                request.step(may_begin)
            except self.mpi.Exception as error:
                request.error = error
            if request.finished or request.error is not None:
                self.under_way.remove(request)
            elif request.left:
                may_begin = False

    def _buffer(self, array: np.ndarray, counts: Sequence[int] | None = None) -> list[Any]:
        """What mpi4py takes for `array`, in parts of these numbers of elements."""
        flat, item = array.view(np.uint8), array.itemsize
        if counts is None:
            return [flat, self.mpi.BYTE]
        ends = np.cumsum(np.asarray([0, *counts])) * item
        return [flat, (np.diff(ends), ends[:-1]), self.mpi.BYTE]

    # ---- reductions --------------------------------------------------------------------------

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> MPIRequest:
        others = self.size - 1
        if self.size == 1 or array.nbytes * others <= SMALL:
            return self._begin(self._reduce_gathered(array, op), others * array.nbytes)
        bounds = [array.size * i // self.size for i in range(self.size + 1)]
        mine = array[bounds[self.rank] : bounds[self.rank + 1]]
        sent = array.nbytes - mine.nbytes + others * mine.nbytes
        return self._begin(self._reduce_parts(array, mine, np.diff(bounds).tolist(), op), sent, count=2)

    def _reduce_gathered(self, array: np.ndarray, op: ReduceOp) -> Exchanges:
        arrays = np.empty((self.size, array.size), array.dtype)
        yield self.comm.Iallgather(self._buffer(array), self._buffer(arrays.reshape(-1)))
        fold(arrays, array, op)

    def _reduce_parts(self, array: np.ndarray, mine: np.ndarray, counts: list[int], op: ReduceOp) -> Exchanges:
        parts = np.empty((self.size, mine.size), array.dtype)
        received = self._buffer(parts.reshape(-1), [mine.size] * self.size)
        yield self.comm.Ialltoallv(self._buffer(array, counts), received)
        fold(parts, mine, op)
        yield self.second.Iallgatherv(self.mpi.IN_PLACE, self._buffer(array, counts))

    def reduce_scatter(self, out: np.ndarray, array: np.ndarray, op: ReduceOp) -> MPIRequest:
        return self._begin(self._reduce_scatter(out, array, op), array.nbytes - out.nbytes)

    def _reduce_scatter(self, out: np.ndarray, array: np.ndarray, op: ReduceOp) -> Exchanges:
        parts = np.empty((self.size, out.size), array.dtype)
        yield self.comm.Ialltoall(self._buffer(array), self._buffer(parts.reshape(-1)))
        fold(parts, out, op)

    # ---- copies ------------------------------------------------------------------------------

    def _one(self, begin: Callable[..., Any], *arguments: Any) -> Exchanges:
        """One exchange; the frame keeps its buffers."""
        yield begin(*arguments)

    def all_gather(self, out: np.ndarray, array: np.ndarray) -> MPIRequest:
        exchange = self._one(self.comm.Iallgather, self._buffer(array), self._buffer(out))
        return self._begin(exchange, (self.size - 1) * array.nbytes)

    def all_to_all(
        self, out: np.ndarray, array: np.ndarray, received: Sequence[int], sent: Sequence[int]
    ) -> MPIRequest:
        exchange = self._one(self.comm.Ialltoallv, self._buffer(array, sent), self._buffer(out, received))
        return self._begin(exchange, array.nbytes - sent[self.rank] * array.itemsize)

    def broadcast(self, array: np.ndarray, src: int) -> MPIRequest:
        exchange = self._one(self.comm.Ibcast, self._buffer(array), src)
        return self._begin(exchange, (self.size - 1) * array.nbytes if src == self.rank else 0)

    def gather(self, out: np.ndarray | None, array: np.ndarray, dst: int) -> MPIRequest:
        received = None if out is None else self._buffer(out)
        exchange = self._one(self.comm.Igather, self._buffer(array), received, dst)
        return self._begin(exchange, 0 if dst == self.rank else array.nbytes)

    def scatter(self, out: np.ndarray, array: np.ndarray | None, src: int) -> MPIRequest:
        parts = None if array is None else self._buffer(array)
        exchange = self._one(self.comm.Iscatter, parts, self._buffer(out), src)
        return self._begin(exchange, 0 if array is None else array.nbytes - out.nbytes)

    def send(self, array: np.ndarray, dst: int, tag: int) -> MPIRequest:
        return self._begin(self._one(self.comm.Isend, self._buffer(array), dst, tag), array.nbytes)

    def recv(self, array: np.ndarray, src: int, tag: int) -> MPIRequest:
        source = self.mpi.ANY_SOURCE if src == ANY_SOURCE else src
        return self._begin(self._one(self.comm.Irecv, self._buffer(array), source, tag), 0, status=self.mpi.Status())

    def barrier(self) -> MPIRequest:
        return self._begin(self._one(self.comm.Ibarrier), 0)

    def split(self, ranks: Sequence[int]) -> MPIEngine | None:
        member = self.rank in ranks
        comm = self.comm.Split(0 if member else self.mpi.UNDEFINED, ranks.index(self.rank) if member else 0)
        return MPIEngine(comm) if member else None
