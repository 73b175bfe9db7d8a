"""The engine over NCCL, by CuPy: device arrays, on a stream of their own, which the current stream waits for.

NCCL has no bfloat16 in CuPy's bindings, and no bools: copies send such elements as bytes or as two-byte numbers, and
reductions convert them, halves to float32. Bitwise reductions are those of gathered arrays.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backend.arrays import dtypes
from ...backend.cuda import runtime
from ...backend.cuda.capture import is_capturing
from ...backend.transfer.copy_engine import record
from ..reduce_op import ReduceOp, fold
from .base import ANY_SOURCE
from .mpi import MPIEngine

_TYPES = {
    dtypes.int8: "INT8", dtypes.uint8: "UINT8", dtypes.int32: "INT32", dtypes.uint32: "UINT32",
    dtypes.int64: "INT64", dtypes.uint64: "UINT64", dtypes.float32: "FLOAT32", dtypes.float64: "FLOAT64",
}  # fmt: skip
_OPS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
}  # fmt: skip
_WIDER = {
    dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32, dtypes.int16: dtypes.int32,
    dtypes.uint16: dtypes.uint32, dtypes.bool_: dtypes.uint8,
}  # fmt: skip


class NCCLRequest:
    """A collective that is queued: `done` says so at once, and `join` makes the current stream wait for it."""

    source: int | None = None

    def __init__(self, event: Any, device: Any, arrays: Sequence[Any], captured: bool) -> None:
        self.event, self.device, self.arrays = event, device, arrays  # memory in use, which the pool must not give away
        self.captured = captured  # into a CUDA graph: nothing runs, and the event must not be asked

    def done(self) -> bool:
        return True

    def complete(self) -> bool:
        """Whether the device has come to its end."""
        return self.captured or bool(self.event.done)

    def join(self) -> None:
        with self.device:
            runtime.cupy().cuda.get_current_stream().wait_event(self.event)


class NCCLEngine:
    """The collectives of a group whose ranks have a GPU each. `host` brings its ranks together."""

    def __init__(self, host: MPIEngine, device: int) -> None:
        self.module, self.nccl = runtime.require_device(device), runtime.nccl()
        self.rank, self.size, self.host = host.rank, host.size, host
        self.calls = self.sent = 0
        self.in_flight: deque[NCCLRequest] = deque()
        _check_devices(host, device)
        self.device = self.module.cuda.Device(device)
        identity = host.comm.bcast(self.nccl.get_unique_id() if self.rank == 0 else None)
        with self.device:
            self.comm = self.nccl.NcclCommunicator(self.size, identity, self.rank)
            self.stream = self.module.cuda.Stream(non_blocking=True)

    def _queue(self, work: Callable[[int], Any], arrays: Sequence[Any], sent: int) -> NCCLRequest:
        """Queues work(stream) after what the current stream has; `arrays` are those in use."""
        with self.device:
            self.stream.wait_event(record(self.module.cuda.get_current_stream()))
            with self.stream:
                work(self.stream.ptr)
                event = record(self.stream)
                captured = is_capturing()
        self.comm.check_async_error()
        self.calls += 1
        self.sent += sent
        request = NCCLRequest(event, self.device, arrays, captured)
        while self.in_flight and self.in_flight[0].complete():
            self.in_flight.popleft()
        self.in_flight.append(request)  # until the device has come to its end, if nobody waits for it
        return request

    def _type(self, dtype: np.dtype) -> int:
        return int(getattr(self.nccl, f"NCCL_{_TYPES[dtypes.OURS[dtype]]}"))

    def _bytes(self, array: Any) -> tuple[int, int, int]:
        """Pointer, count and NCCL's type of an array that is copied."""
        return array.data.ptr, array.nbytes, self._type(dtypes.uint8)

    # ---- reductions --------------------------------------------------------------------------

    def _reduced(self, out: Any, array: Any, op: ReduceOp, sent: int, call: Callable[..., None]) -> NCCLRequest:
        """Reduces `array` into `out` by call(source, target, type, op, stream), in a type that NCCL has."""
        ours = dtypes.OURS[array.dtype]
        wider = _WIDER.get(ours)
        with self.device:
            source = array if wider is None else array.astype(wider)
            if ours == dtypes.bool_ and op in (ReduceOp.SUM, ReduceOp.PRODUCT):  # sums of bytes wrap around
                op = ReduceOp.MAX if op is ReduceOp.SUM else ReduceOp.MIN
            target = source if out is array else out if wider is None else self.module.empty(out.shape, wider)

        def work(stream: int) -> None:
            call(source, target, self._type(source.dtype), int(getattr(self.nccl, f"NCCL_{_OPS[op]}")), stream)
            if op is ReduceOp.AVG:
                self.module.divide(target, self.size, out=target)
            if target is not out:
                out[...] = target

        return self._queue(work, (array, source, target, out), sent)

    def all_reduce(self, array: Any, op: ReduceOp) -> NCCLRequest:
        if op not in _OPS:
            return self._gathered(array, array, op, slice(0, array.size))
        sent = 2 * (self.size - 1) * array.nbytes // self.size
        return self._reduced(array, array, op, sent, lambda source, target, *rest: self.comm.allReduce(
            source.data.ptr, target.data.ptr, source.size, *rest))  # fmt: skip

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> NCCLRequest:
        if op not in _OPS:
            return self._gathered(out, array, op, slice(self.rank * out.size, (self.rank + 1) * out.size))
        return self._reduced(out, array, op, array.nbytes - out.nbytes, lambda source, target, *rest: (
            self.comm.reduceScatter(source.data.ptr, target.data.ptr, target.size, *rest)))  # fmt: skip

    def _gathered(self, out: Any, array: Any, op: ReduceOp, part: slice) -> NCCLRequest:
        """Reduces what all ranks gather, by operations that NCCL does not have."""
        with self.device:
            arrays = self.module.empty((self.size, array.size), array.dtype)

        def work(stream: int) -> None:
            self.comm.allGather(array.data.ptr, arrays.data.ptr, *self._bytes(array)[1:], stream)
            fold([row[part] for row in arrays], out, op)

        return self._queue(work, (out, array, arrays), (self.size - 1) * array.nbytes)

    # ---- copies ------------------------------------------------------------------------------

    def all_gather(self, out: Any, array: Any) -> NCCLRequest:
        _, count, kind = self._bytes(array)
        return self._queue(lambda stream: self.comm.allGather(array.data.ptr, out.data.ptr, count, kind, stream),
                           (out, array), (self.size - 1) * array.nbytes)  # fmt: skip

    def broadcast(self, array: Any, src: int) -> NCCLRequest:
        pointer, count, kind = self._bytes(array)
        sent = (self.size - 1) * array.nbytes if src == self.rank else 0
        return self._queue(lambda stream: self.comm.bcast(pointer, count, kind, src, stream), (array,), sent)

    def _messages(self, sent: Sequence[tuple[Any, int]], received: Sequence[tuple[Any, int]]) -> NCCLRequest:
        """Sends arrays to ranks and fills others with theirs, at once; what goes to this rank is copied."""
        mine = [array for array, rank in sent if rank == self.rank]
        own = [array for array, rank in received if rank == self.rank]

        def work(stream: int) -> None:
            for source, target in zip(mine, own, strict=True):
                target[...] = source
            self.nccl.groupStart()
            for begin, messages in ((self.comm.send, sent), (self.comm.recv, received)):
                for array, rank in messages:
                    if rank != self.rank and array.size:
                        begin(*self._bytes(array), rank, stream)
            self.nccl.groupEnd()

        others = sum(array.nbytes for array, rank in sent if rank != self.rank)
        return self._queue(work, [array for array, _ in (*sent, *received)], others)

    def all_to_all(self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]) -> NCCLRequest:
        return self._messages(_parts(array, sent), _parts(out, received))

    def gather(self, out: Any, array: Any, dst: int) -> NCCLRequest:
        parts = [] if out is None else _parts(out, [array.size] * self.size)
        return self._messages([(array, dst)], parts)

    def scatter(self, out: Any, array: Any, src: int) -> NCCLRequest:
        parts = [] if array is None else _parts(array, [out.size] * self.size)
        return self._messages(parts, [(out, src)])

    def send(self, array: Any, dst: int, tag: int) -> NCCLRequest:
        return self._messages([(array, dst)], [])

    def recv(self, array: Any, src: int, tag: int) -> NCCLRequest:
        if src == ANY_SOURCE:
            raise ValueError("recv: NCCL has no messages from any rank; give src, or receive into a CPU tensor")
        request = self._messages([], [(array, src)])
        request.source = src
        return request

    def barrier(self) -> Any:
        return self.host.barrier()

    def advance(self) -> None: ...

    def split(self, ranks: Sequence[int]) -> None:
        raise AssertionError("groups split their host engines")


def _parts(array: Any, sizes: Sequence[int]) -> list[tuple[Any, int]]:
    """The parts of `array` of these sizes, each with its rank."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [(array[ends[rank] : ends[rank + 1]], rank) for rank in range(len(sizes))]


def _check_devices(host: MPIEngine, device: int) -> None:
    """RuntimeError on all ranks if two have the same GPU: NCCL would wait, or end with an internal error."""
    every = host.comm.allgather((socket.gethostname(), device))
    for rank, place in enumerate(every):
        first = every.index(place)
        if first != rank:
            raise RuntimeError(f"NCCL needs a GPU for each rank, and ranks {first} and {rank} both use cuda:{place[1]} "
                               f"of {place[0]}: call ag.cuda.set_device(int(os.environ['LOCAL_RANK'])), or use the "
                               "backend \"mpi\"")
