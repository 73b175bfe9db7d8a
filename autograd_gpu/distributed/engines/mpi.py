"""The engine over MPI: arrays in host memory, as bytes. MPI moves them, NumPy reduces them.

Reductions are summed here, in the order of the ranks: the result has equal bits in every run, with every MPI, and half
precisions, which MPI does not know, travel in two bytes. A large all-reduce exchanges parts, reduces one on each rank
and gathers the results, which sends the least bytes possible, 2 (size - 1) / size of the array; a small one gathers
all arrays, which takes one exchange less.

Nothing blocks: exchanges are begun and polled, since MPI's blocking calls spin, and cannot time out. Large arrays go as
messages, which is several times faster than MPI's non-blocking collectives.
"""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ... import backend
from ..reduce_op import ReduceOp, fold
from .base import ANY_SOURCE, TAGS

SMALL = 1 << 15  # bytes from all other ranks up to which arrays are gathered by one collective of MPI
Exchanges = Generator[Any, None, None]  # begins an exchange, yields it, and goes on when it is complete


class Messages:
    """An exchange of several messages."""

    def __init__(self, mpi: Any, requests: list[Any]) -> None:
        self.mpi, self.requests = mpi, requests

    def Test(self, status: Any) -> bool:
        return bool(self.mpi.Request.Testall(self.requests))


class MPIRequest:
    """A collective whose exchanges follow one another."""

    source: int | None = None
    finished = False
    error: BaseException | None = None  # what has ended it: `done` raises it

    def __init__(self, engine: MPIEngine, exchanges: Exchanges, status: Any) -> None:
        self.engine, self.exchanges, self.status = engine, exchanges, status
        self.exchange = next(exchanges)

    def step(self) -> None:
        """Goes on as far as it can."""
        while not self.finished and self.exchange.Test(self.status):
            following = next(self.exchanges, None)
            if following is None:
                self.source = self.status and self.status.Get_source()
                self.finished = True
            else:
                self.exchange = following

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
        self.comm, self.parts = comm, comm.Dup()  # the latter for messages of collectives
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.others = [rank for rank in range(self.size) if rank != self.rank]
        self.under_way: list[MPIRequest] = []
        self.advancing = threading.Lock()  # threads may wait for several collectives
        self.tag = self.calls = self.sent = 0

    def _begin(self, exchanges: Exchanges, sent: int, status: Any = None) -> MPIRequest:
        request = MPIRequest(self, exchanges, status)
        self.under_way.append(request)
        self.calls += 1
        self.sent += sent
        return request

    def advance(self) -> None:
        with self.advancing:
            for request in tuple(self.under_way):
                try:
                    request.step()
                except BaseException as error:
                    request.error = error
                    if not isinstance(error, Exception):  # Ctrl-C
                        raise
                finally:
                    if request.finished or request.error is not None:
                        self.under_way.remove(request)

    def _buffer(self, array: np.ndarray) -> list[Any]:
        """What mpi4py takes for `array`."""
        return [array.view(np.uint8), self.mpi.BYTE]

    def _tag(self) -> int:
        """The tag of an exchange of messages, equal on all ranks, which begin the same collectives."""
        self.tag = (self.tag + 1) % TAGS
        return self.tag

    def _messages(self, received: Sequence[np.ndarray], sent: Sequence[np.ndarray], tag: int) -> Messages:
        """Begins to send an array to each other rank, and to fill arrays with theirs; empty ones are left out."""
        requests = [
            begin(self._buffer(arrays[rank]), rank, tag)
            for begin, arrays in ((self.parts.Irecv, received), (self.parts.Isend, sent))
            for rank in self.others if arrays[rank].size
        ]  # fmt: skip
        return Messages(self.mpi, requests)

    # ---- reductions --------------------------------------------------------------------------

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> MPIRequest:
        if self.size == 1 or array.nbytes * (self.size - 1) <= SMALL:
            return self._begin(self._reduce_gathered(array, op), (self.size - 1) * array.nbytes)
        ends = [array.size * i // self.size for i in range(self.size + 1)]
        chunks = _split(array, np.diff(ends).tolist())
        mine = chunks[self.rank]
        sent = array.nbytes + (self.size - 2) * mine.nbytes
        return self._begin(self._reduce_chunks(chunks, mine, op, self._tag(), self._tag()), sent)

    def _reduce_gathered(self, array: np.ndarray, op: ReduceOp) -> Exchanges:
        arrays = backend.namespace(array).empty((self.size, array.size), array.dtype)
        yield self.comm.Iallgather(self._buffer(array), self._buffer(arrays.reshape(-1)))
        fold(list(arrays), array, op)

    def _reduce_chunks(
        self, chunks: list[np.ndarray], mine: np.ndarray, op: ReduceOp, first: int, second: int
    ) -> Exchanges:
        yield from self._reduce_parts(chunks, mine, op, first)
        yield self._messages(chunks, [mine] * self.size, second)

    def _reduce_parts(self, sent: list[np.ndarray], out: np.ndarray, op: ReduceOp, tag: int) -> Exchanges:
        """Fills `out` with the reduction of what all ranks send to this one; `out` may be memory of it."""
        parts = backend.namespace(out).empty((self.size, out.size), out.dtype)
        parts[self.rank] = sent[self.rank]
        yield self._messages(list(parts), sent, tag)
        fold(list(parts), out, op)

    def reduce_scatter(self, out: np.ndarray, array: np.ndarray, op: ReduceOp) -> MPIRequest:
        parts = _split(array, [out.size] * self.size)
        return self._begin(self._reduce_parts(parts, out, op, self._tag()), array.nbytes - out.nbytes)

    # ---- copies ------------------------------------------------------------------------------

    def _one(self, begin: Callable[..., Any], *arguments: Any) -> Exchanges:
        """One exchange; the frame keeps its buffers."""
        yield begin(*arguments)

    def all_gather(self, out: np.ndarray, array: np.ndarray) -> MPIRequest:
        sent = (self.size - 1) * array.nbytes
        if sent <= SMALL:
            return self._begin(self._one(self.comm.Iallgather, self._buffer(array), self._buffer(out)), sent)
        size = [array.size] * self.size
        return self._begin(self._swap(_split(out, size), [array] * self.size), sent)

    def all_to_all(
        self, out: np.ndarray, array: np.ndarray, received: Sequence[int], sent: Sequence[int]
    ) -> MPIRequest:
        others = array.nbytes - sent[self.rank] * array.itemsize
        return self._begin(self._swap(_split(out, received), _split(array, sent)), others)

    def _swap(self, received: list[np.ndarray], sent: list[np.ndarray]) -> Exchanges:
        received[self.rank][...] = sent[self.rank]
        yield self._messages(received, sent, self._tag())

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
        status = self.mpi.Status()
        return self._begin(self._received(array, self.mpi.ANY_SOURCE if src == ANY_SOURCE else src, tag, status), 0,
                           status)

    def _received(self, array: np.ndarray, src: int, tag: int, status: Any) -> Exchanges:
        yield self.comm.Irecv(self._buffer(array), src, tag)
        count = status.Get_count(self.mpi.BYTE)
        if count != array.nbytes:
            raise ValueError(f"the message has {count} bytes, and the tensor {array.nbytes}")

    def barrier(self) -> MPIRequest:
        return self._begin(self._one(self.comm.Ibarrier), 0)

    def split(self, ranks: Sequence[int]) -> MPIEngine | None:
        member = self.rank in ranks
        comm = self.comm.Split(0 if member else self.mpi.UNDEFINED, ranks.index(self.rank) if member else 0)
        return MPIEngine(comm) if member else None


def _split(array: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """The parts of `array` that have these sizes, one after the other."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [array[begin:end] for begin, end in itertools.pairwise(ends)]
