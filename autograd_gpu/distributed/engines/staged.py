"""The engine for device arrays over an MPI that knows host memory only: copies through page-locked memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backend.cuda import runtime
from ...backend.transfer.copy_engine import record
from ..reduce_op import ReduceOp
from .base import Engine, Request


class StagedRequest:
    """A collective on host arrays, some of which go back to the device when it is done."""

    source: int | None = None

    def __init__(self, request: Request, back: Sequence[tuple[Any, np.ndarray]]) -> None:
        self.request, self.back = request, back

    def done(self) -> bool:
        if not self.request.done():
            return False
        self.source = self.request.source
        for array, host in self.back:
            if array.size:
                with array.device:
                    array.set(host)  # on the current stream
        self.held, self.back = self.back, ()
        return True

    def join(self) -> None:
        """Waits for the copies: their host memory is given away after that."""
        held: Sequence[tuple[Any, np.ndarray]] = getattr(self, "held", ())
        for array, _ in held:
            with array.device:
                record(runtime.cupy().cuda.get_current_stream()).synchronize()
        self.held = ()


class StagedEngine:
    """The collectives of a host engine, on device arrays."""

    def __init__(self, host: Engine) -> None:
        self.host, self.rank, self.size = host, host.rank, host.size

    @property
    def calls(self) -> int:
        return self.host.calls

    @property
    def sent(self) -> int:
        return self.host.sent

    def _down(self, *arrays: Any) -> list[Any]:
        """Copies of device arrays in page-locked memory, complete; None stays None."""
        hosts = [None if a is None else runtime.cupyx().empty_pinned(a.shape, a.dtype) for a in arrays]
        for array, host in zip(arrays, hosts, strict=True):
            if array is not None and array.size:
                with array.device:
                    array.get(out=host)
        return hosts

    def _empty(self, array: Any) -> Any:
        return None if array is None else runtime.cupyx().empty_pinned(array.shape, array.dtype)

    def _begin(self, out: Any, make: Callable[[Any], Request], host: Any = None) -> StagedRequest:
        """Begins make(host), whose results in `host` go to `out`."""
        host = self._empty(out) if host is None else host
        return StagedRequest(make(host), [] if out is None else [(out, host)])

    def all_reduce(self, array: Any, op: ReduceOp) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(array, lambda host: self.host.all_reduce(host, op), mine)

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(out, lambda host: self.host.reduce_scatter(host, mine, op))

    def all_gather(self, out: Any, array: Any) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(out, lambda host: self.host.all_gather(host, mine))

    def all_to_all(self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(out, lambda host: self.host.all_to_all(host, mine, received, sent))

    def broadcast(self, array: Any, src: int) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(array, lambda host: self.host.broadcast(host, src), mine)

    def gather(self, out: Any, array: Any, dst: int) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(out, lambda host: self.host.gather(host, mine, dst))

    def scatter(self, out: Any, array: Any, src: int) -> StagedRequest:
        (parts,) = self._down(array)
        return self._begin(out, lambda host: self.host.scatter(host, parts, src))

    def send(self, array: Any, dst: int, tag: int) -> StagedRequest:
        (mine,) = self._down(array)
        return self._begin(None, lambda host: self.host.send(mine, dst, tag))

    def recv(self, array: Any, src: int, tag: int) -> StagedRequest:
        return self._begin(array, lambda host: self.host.recv(host, src, tag))

    def barrier(self) -> Request:
        return self.host.barrier()

    def advance(self) -> None:
        self.host.advance()

    def split(self, ranks: Sequence[int]) -> StagedEngine | None:
        raise AssertionError("groups split their host engines")
