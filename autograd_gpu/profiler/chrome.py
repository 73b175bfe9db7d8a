"""Writes a profile as a Chrome trace: JSON that Perfetto and chrome://tracing open.

Spans are complete events (X) of a track per thread, and per stream for what they did on CUDA; instants are i; the
arrows from a call to the run of its node are a pair of s and f with the node's sequence number as id; live bytes are
counters (C), a track per device. Times are microseconds after the start of the profile.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .events import FunctionEvent
from .log import Log
from .memory import CATEGORIES

Samples = Sequence[tuple[int, dict[str, tuple[int, ...]]]]
DEVICE_PID = 1_000_000_000  # plus the index of the device; no process has such a number
FLOW = "fwdbwd"  # the category that PyTorch gives to these arrows


def write(path: str | Path, trace: dict[str, Any]) -> None:
    """Writes the trace, compressed if the name ends in .gz."""
    text = json.dumps(trace, separators=(",", ":"))
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def trace_of(
    events: Sequence[FunctionEvent], logs: Sequence[Log], samples: Samples, started: int, metadata: dict[str, Any]
) -> dict[str, Any]:
    """The trace as what json.dumps takes."""
    pid = os.getpid()
    rows: list[dict[str, Any]] = [*_names(pid, logs, events)]
    for event in events:
        rows.append(_row(pid, event))
        if event.device_range is not None:
            rows.append(_device_row(event))
    rows += _arrows(pid, events)
    for moment, totals in samples:
        for device, counts in sorted(totals.items()):
            args, ts = dict(zip(CATEGORIES, counts, strict=True)), (moment - started) / 1e3
            rows.append({"ph": "C", "name": f"live bytes, {device}", "pid": pid, "tid": 0, "ts": ts, "args": args})
    return {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": rows, **metadata}


def _names(pid: int, logs: Sequence[Log], events: Sequence[FunctionEvent]) -> Iterator[dict[str, Any]]:
    def named(what: str, name: str, pid: int, tid: int) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}

    yield named("process_name", "autograd_gpu", pid, 0)
    for thread, log in enumerate(logs):
        yield named("thread_name", f"thread {log.thread} ({log.name})", pid, thread)
    streams = {(e.device_index, e.device_stream) for e in events if e.device_range is not None}
    for device, stream in sorted(streams):
        yield named("process_name", f"cuda:{device}", DEVICE_PID + device, stream)
        yield named("thread_name", f"stream {stream}", DEVICE_PID + device, stream)


def _row(pid: int, event: FunctionEvent) -> dict[str, Any]:
    args: dict[str, Any] = {key: _plain(value) for key, value in event.facts.items()}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
    if event.input_shapes is not None:
        args["Input Dims"] = event.input_shapes
    if event.stack:
        args["Call stack"] = ";".join(reversed(event.stack))
    row = {"ph": "i" if event.is_instant else "X", "cat": event.kind, "name": event.name, "pid": pid,
           "tid": event.thread, "ts": event.time_range.start, "args": args}  # fmt: skip
    return row | ({"s": "t"} if event.is_instant else {"dur": event.cpu_time_total})


def _device_row(event: FunctionEvent) -> dict[str, Any]:
    assert event.device_range is not None
    return {"ph": "X", "cat": f"cuda {event.kind}", "name": event.name, "pid": DEVICE_PID + event.device_index,
            "tid": event.device_stream, "ts": event.device_range.start, "dur": event.device_time_total,
            "args": {"launches": event.launches}}  # fmt: skip


def _arrows(pid: int, events: Sequence[FunctionEvent]) -> Iterator[dict[str, Any]]:
    """An arrow per run of a node; each has an id of its own, since a node may run several times."""
    for number, node in enumerate(e for e in events if e.forward is not None):
        call = node.forward
        assert call is not None
        ends = {"s": (call, call.time_range.start), "f": (node, node.time_range.start)}
        for phase, (event, moment) in ends.items():
            row = {"ph": phase, "cat": FLOW, "name": FLOW, "id": number, "pid": pid, "tid": event.thread, "ts": moment,
                   "args": {"Sequence number": node.sequence_nr}}  # fmt: skip
            yield row | ({"bp": "e"} if phase == "f" else {})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
