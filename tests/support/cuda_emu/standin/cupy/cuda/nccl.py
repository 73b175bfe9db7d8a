"""cupy.cuda.nccl between the processes of mpiexec: NCCL's rules, and MPI on host memory in its place.

Checked are types, pointers and sizes, overlap of buffers, the current device, groups, and that all ranks make the same
call. Work is that of the stream, and clocks find what is not ordered with it. It runs with the schedule "eager" only:
a GPU goes on while the host waits in MPI, and a stream that runs late does not.
"""

from __future__ import annotations

import itertools
import os
import pickle
import time
from typing import Any

import numpy as np

from .. import _clock
from .._emulation import SETTINGS
from .._errors import HazardError
from .._memory import find, view
from .._state import CURRENT, queue_of

available = True
NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = 0, 1, 2, 3, 4, 5
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64 = 6, 7, 8
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
_DTYPES = [np.dtype(name) for name in ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8")]
_OPS = [np.add, np.multiply, np.maximum, np.minimum]
_TAG = 7
_LIMIT = 10  # seconds
_numbers = itertools.count()


class NcclError(RuntimeError):
    """An error of NCCL."""


class _Group:
    """The calls between groupStart and groupEnd of this process; None outside."""

    calls: list[tuple[NcclCommunicator, str, Any, int]] | None = None


def _mpi() -> Any:
    from mpi4py import MPI

    return MPI


def _received(world: Any, source: int) -> Any:
    """What a process sends, or any process; HazardError if nothing comes."""
    until = time.monotonic() + _LIMIT
    while not world.iprobe(source=source, tag=_TAG):
        if time.monotonic() > until:
            raise HazardError("the other ranks do not make this call: NCCL would hang")
        time.sleep(1e-4)
    return world.recv(source=source, tag=_TAG)


def get_unique_id() -> bytes:
    """Names a communicator: which process has made it."""
    return pickle.dumps((_mpi().COMM_WORLD.Get_rank(), os.getpid(), next(_numbers)))


def groupStart() -> None:
    if _Group.calls is not None:
        raise NotImplementedError("nested groups")
    _Group.calls = []


def groupEnd() -> None:
    calls, _Group.calls = _Group.calls, None
    if calls is None:
        raise NcclError("NCCL_ERROR_INVALID_USAGE: invalid usage")
    if not calls:
        return
    sends = [(comm, buffer, peer) for comm, name, buffer, peer in calls if name == "send"]
    receives = [(comm, buffer, peer) for comm, name, buffer, peer in calls if name == "recv"]
    queue = calls[0][2][1]

    def run() -> None:
        requests = [comm.world.isend(buffer[0][3].tobytes(), comm.table[peer], _TAG) for comm, buffer, peer in sends]
        for comm, buffer, peer in receives:
            raw = buffer[0][3]
            content = _received(comm.world, comm.table[peer])
            if len(content) != raw.nbytes:
                raise HazardError(f"recv of {raw.nbytes} bytes meets a send of {len(content)}: NCCL would hang")
            raw[...] = np.frombuffer(content, raw.dtype)
        for request in requests:
            request.wait()

    queue.push(run, "nccl", [buffer[0] for _, _, buffer, _ in calls])


class NcclCommunicator:
    """A rank of a communicator of `ndev` ranks."""

    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
        if SETTINGS.schedule != "eager":
            raise NotImplementedError("the stand-in for NCCL needs the schedule \"eager\"")
        self.world, self.count, self.rank, self.device = _mpi().COMM_WORLD, ndev, rank, CURRENT.device
        root = pickle.loads(commId)[0]
        mine = rank, self.world.Get_rank()
        if mine[1] == root:
            ranks = dict([mine, *[_received(self.world, _mpi().ANY_SOURCE) for _ in range(ndev - 1)]])
            self.table = [ranks[i] for i in range(ndev)]
            for other in self.table:
                if other != root:
                    self.world.send(self.table, other, _TAG)
        else:
            self.world.send(mine, root, _TAG)
            self.table = _received(self.world, root)

    def size(self) -> int:
        return self.count

    def rank_id(self) -> int:
        return self.rank

    def check_async_error(self) -> None: ...

    def abort(self) -> None: ...

    def destroy(self) -> None: ...

    # ---- buffers -----------------------------------------------------------------------------

    def _buffer(self, pointer: int, count: int, datatype: int, stream: int, writes: bool) -> tuple[Any, Any]:
        """What an operation touches, and the queue that runs it."""
        if self.device != CURRENT.device:
            raise HazardError(f"a communicator of device {self.device} is used on device {CURRENT.device}")
        if datatype not in range(len(_DTYPES)) or count < 0:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        dtype, queue = _DTYPES[datatype], queue_of(stream)
        if count == 0:
            return (None, 0, 0, np.empty(0, dtype), writes), queue
        block = find(pointer)
        if block is None or block.pinned or block.device != self.device:
            raise HazardError(f"{pointer:#x} is no memory of device {self.device}")
        if pointer + count * dtype.itemsize > block.ptr + block.size:
            raise HazardError(f"{count} elements of {dtype} at {pointer:#x} reach beyond their memory")
        raw = view(pointer, (count,), dtype, (dtype.itemsize,))
        return (block, *_clock.span(raw, pointer), raw, writes), queue

    def _agree(self, call: tuple[Any, ...], content: bytes) -> list[bytes]:
        """What the ranks send to all; HazardError unless they make the same call."""
        requests = [self.world.isend((call, content), other, _TAG) for other in self.table]
        every = [_received(self.world, other) for other in self.table]
        for request in requests:
            request.wait()
        if any(theirs != call for theirs, _ in every):
            raise HazardError(f"ranks make different calls: {[theirs for theirs, _ in every]}: NCCL would hang")
        return [content for _, content in every]

    def _collective(self, name: str, source: Any, target: Any, call: tuple[Any, ...], result: Any) -> None:
        """Queues the operation: target = result(the arrays of all ranks)."""
        if _Group.calls is not None:
            raise NotImplementedError("collectives in groups")
        (reads, queue), (writes, _) = source, target

        def run() -> None:
            contents = self._agree((name, *call), reads[3].tobytes())
            writes[3][...] = result([np.frombuffer(content, reads[3].dtype) for content in contents])

        accesses = [access for access in (reads, writes) if access[0] is not None]
        queue.push(run, f"nccl {name}", accesses)

    # ---- calls -------------------------------------------------------------------------------

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        source = self._buffer(sendbuf, count, datatype, stream, False)
        target = self._buffer(recvbuf, count, datatype, stream, True)
        _refuse_overlap(source, target, sendbuf == recvbuf)
        ufunc = _OPS[op]
        self._collective("allReduce", source, target, (count, datatype, op), lambda arrays: ufunc.reduce(arrays))

    def reduceScatter(self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int) -> None:
        source = self._buffer(sendbuf, recvcount * self.count, datatype, stream, False)
        target = self._buffer(recvbuf, recvcount, datatype, stream, True)
        _refuse_overlap(source, target, recvbuf == sendbuf + self.rank * recvcount * _DTYPES[datatype].itemsize)
        ufunc, part = _OPS[op], slice(self.rank * recvcount, (self.rank + 1) * recvcount)
        self._collective("reduceScatter", source, target, (recvcount, datatype, op),
                         lambda arrays: ufunc.reduce(arrays)[part])  # fmt: skip

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        source = self._buffer(sendbuf, count, datatype, stream, False)
        target = self._buffer(recvbuf, count * self.count, datatype, stream, True)
        _refuse_overlap(source, target, sendbuf == recvbuf + self.rank * count * _DTYPES[datatype].itemsize)
        self._collective("allGather", source, target, (count, datatype), np.concatenate)

    def bcast(self, buff: int, count: int, datatype: int, root: int, stream: int) -> None:
        both = self._buffer(buff, count, datatype, stream, True)
        self._collective("bcast", both, both, (count, datatype, root), lambda arrays: arrays[root])

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._message("send", sendbuf, count, datatype, peer, stream)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._message("recv", recvbuf, count, datatype, peer, stream)

    def _message(self, name: str, pointer: int, count: int, datatype: int, peer: int, stream: int) -> None:
        if _Group.calls is None:
            raise HazardError(f"{name} outside of a group: two ranks that send to each other would hang")
        if not 0 <= peer < self.count or peer == self.rank:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        _Group.calls.append((self, name, self._buffer(pointer, count, datatype, stream, name == "recv"), peer))


def _refuse_overlap(source: Any, target: Any, in_place: bool) -> None:
    """HazardError for buffers that share memory in another way than NCCL's in-place calls."""
    if source[0][3].size and not in_place and np.shares_memory(source[0][3], target[0][3]):
        raise HazardError("sendbuf and recvbuf overlap")
