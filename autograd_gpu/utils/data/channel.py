"""What a worker process and its parent say to each other: small messages in a pipe, batches in shared memory.

Each worker has segments of anonymous shared memory, one for each batch that it may be ahead. They have no name, so that
nothing stays when a process is killed, and the pipe holds little, so that nobody waits for it to be emptied.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import struct
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from ...backend.cpu import pool
from ...core.tensor import Tensor

SMALL = 4096  # bytes; arrays below it are pickled together with the rest
_RESULT = struct.Struct("<qqq")  # task, segment, number of parts


class Segment:
    """Shared memory that one process writes and another one reads, one after the other. It grows, and never shrinks."""

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            memory = getattr(os, "memfd_create", None)  # Linux; elsewhere a file without a name
            fd = memory("autograd_gpu batch") if memory else _nameless_file()
        self.fd = fd

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    def __reduce__(self) -> tuple[Any, ...]:
        return _segment_of, (reduction.DupFd(self.fd),)  # works while a process is being started, and only then

    def write(self, parts: list[Any]) -> None:
        """Writes the lengths of `parts`, which are bytes or buffers, and the parts."""
        views = [memoryview(part).cast("B") for part in parts]
        lengths, offset = np.array([len(view) for view in views], np.int64), 0
        for view in (memoryview(lengths.tobytes()), *views):
            done = 0
            while done < len(view):
                done += os.pwrite(self.fd, view[done:], offset + done)
            offset += done

    def read(self, count: int) -> list[np.ndarray]:
        """Copies of the `count` parts that were written last, as bytes."""
        lengths = np.empty(count, np.int64)
        self._fill(lengths.view(np.uint8), 0)
        parts, offset = [], lengths.nbytes
        for length in lengths.tolist():
            part = pool.empty((length,), np.dtype(np.uint8))
            self._fill(part, offset)
            parts.append(part)
            offset += length
        return parts

    def _fill(self, part: np.ndarray, offset: int) -> None:
        view, done = part.data, 0
        while done < len(view):
            done += os.preadv(self.fd, [view[done:]], offset + done)


def _nameless_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _segment_of(duplicate: Any) -> Segment:
    return Segment(duplicate.detach())


class Task(NamedTuple):
    """What a worker is to do: the indices of a batch, and the segment to write it to."""

    number: int
    segment: int
    indices: Any


class Restart(NamedTuple):
    """Forget all tasks so far, and begin an epoch; the worker answers with task `number`."""

    number: int


class Result(NamedTuple):
    """The answer to a task, pickled: payload, and the buffers of large arrays."""

    number: int
    parts: list[np.ndarray]

    def value(self) -> Any:
        return pickle.loads(self.parts[0].data, buffers=self.parts[1:])


class WorkerEnd(NamedTuple):
    """What a worker process holds."""

    pipe: Connection
    segments: list[Segment]

    def answer(self, number: int, segment: int, value: Any) -> None:
        """Sends the answer to task `number`. Whatever pickle raises leaves the channel as it was."""
        buffers: list[pickle.PickleBuffer] = []
        payload = io.BytesIO()
        pickler = pickle.Pickler(payload, protocol=5, buffer_callback=lambda buffer: _in_band(buffer, buffers))
        pickler.dispatch_table = _REDUCERS
        pickler.dump(value)
        self.segments[segment].write([payload.getbuffer(), *[buffer.raw() for buffer in buffers]])
        self.pipe.send_bytes(_RESULT.pack(number, segment, 1 + len(buffers)))


class ParentEnd(NamedTuple):
    """What the parent of a worker holds."""

    pipe: Connection
    segments: list[Segment]

    def receive(self) -> Result:
        """The next answer; EOFError or OSError if the worker has died."""
        number, segment, count = _RESULT.unpack(self.pipe.recv_bytes())
        return Result(number, self.segments[segment].read(count))


def channel(context: Any, segments: int) -> tuple[ParentEnd, WorkerEnd]:
    """The two ends of a new channel."""
    ours, theirs = context.Pipe()
    shared = [Segment() for _ in range(segments)]
    return ParentEnd(ours, shared), WorkerEnd(theirs, shared)


def _reduced(tensor: Tensor) -> Any:
    if not tensor.is_leaf:
        raise RuntimeError("a tensor that requires grad and is not a leaf cannot be sent to another process, since its "
                           "history stays in this one; use .detach()")
    return tensor.__reduce__()


_REDUCERS = copyreg.dispatch_table.copy()
_REDUCERS[Tensor] = _reduced


def _in_band(buffer: pickle.PickleBuffer, taken: list[pickle.PickleBuffer]) -> bool:
    """Whether pickle copies the buffer; else it is added to `taken`."""
    if memoryview(buffer).nbytes < SMALL:
        return True
    taken.append(buffer)
    return False
