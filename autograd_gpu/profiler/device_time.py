"""Times on CUDA: an event at the start and at the end of each span, on the current stream, and an NVTX range."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ..backend.cuda import capture, runtime


class Mark(NamedTuple):
    """The start of a span: its event and its stream. The end event follows."""

    event: Any
    device: int
    stream: int


class DeviceClock:
    """Records events, and converts them to the clock of the host once they have happened.

    While a stream is captured nothing is recorded, since events would become part of the graph.
    """

    def __init__(self) -> None:
        self._module = runtime.cupy()
        self._nvtx = self._module.cuda.nvtx
        self._bases: dict[int, tuple[Any, int]] = {}  # by device: an event, and the host's time at it
        self._base(runtime.current.device())

    def _base(self, device: int) -> tuple[Any, int]:
        base = self._bases.get(device)
        if base is None:
            with self._module.cuda.Device(device):
                event = self._module.cuda.Event()
                event.record()
                event.synchronize()
            base = self._bases[device] = event, time.perf_counter_ns()
        return base

    def begin(self, name: str) -> Mark | None:
        """Opens a range, and records an event unless the stream is being captured."""
        self._nvtx.RangePush(name)
        if capture.is_capturing():
            return None
        device, stream = runtime.current.device(), runtime.current.stream()
        self._base(device)
        return Mark(self._record(stream), device, stream.ptr)

    def end(self, mark: Mark | None) -> Any:
        """Closes the range; returns (mark, end event), None without a start."""
        self._nvtx.RangePop()
        if mark is None or capture.is_capturing():
            return None
        return mark, self._record(runtime.current.stream())

    def _record(self, stream: Any) -> Any:
        event = self._module.cuda.Event()
        event.record(stream)
        return event

    def times(self, marks: Any) -> tuple[int, int, Mark]:
        """Start and end of a span on the host's clock, in ns; waits for them."""
        mark, stop = marks
        base, host = self._bases[mark.device]
        elapsed = self._module.cuda.get_elapsed_time
        stop.synchronize()
        start = host + round(elapsed(base, mark.event) * 1e6)
        return start, max(start, host + round(elapsed(base, stop) * 1e6)), mark
