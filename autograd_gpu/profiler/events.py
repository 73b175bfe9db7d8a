"""Events: the records of a profile as a tree of spans with instants, forward and backward tied by sequence numbers."""

from __future__ import annotations

import bisect
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .averages import EventAverages, averages
from .log import COPY, FUNCTION, LAUNCH, NODE, OP, PRODUCT, Log, Record
from .recorder import Recorder


class Interval:
    """Start and end of an event in microseconds after the start of the profile."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """The length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start:.3f}, {self.end:.3f})"


class FunctionEvent:
    """A span, or an instant, of which start and end are equal.

    kind: "op", "function", "node", "engine", "backward", "range", "optimizer", "pack", "unpack", "replay", and of
    instants "launch", "product", "copy", "skipped". name; time_range; thread: number of the track; sequence_nr: of the
    node that the call made or that ran, else -1; facts: what else is known, such as the reason of what was skipped;
    input_shapes, stack: if recorded. cpu_parent and cpu_children are the spans around and inside of it, `instants` what
    happened in it and not in its children; forward: of a node's run, the event of the call that made the node.
    """

    def __init__(self, record: Record, thread: int, started: int) -> None:
        end = record.start if record.end is None else record.end
        self.kind, self.name, self.facts = record.kind, record.name, record.facts or {}
        if self.kind == PRODUCT:
            self.name, self.facts = f"product {' x '.join(map(str, record.facts))}", {"shape": record.facts}
        self.key = self.name
        self.is_instant = record.end is None
        self.thread, self.id = thread, (thread, record.order)
        self.time_range = Interval((record.start - started) / 1e3, (end - started) / 1e3)
        self.cpu_time_total = (end - record.start) / 1e3
        self.sequence_nr = -1 if record.sequence is None else record.sequence
        self.input_shapes = None if record.shapes is None else [list(shape) for shape in record.shapes]
        self.stack = [f"{file}({line}): {name}" for file, line, name in record.stack or ()]
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.instants: list[FunctionEvent] = []
        self.forward: FunctionEvent | None = None
        self.device_range: Interval | None = None  # on CUDA, on the same clock
        self.device_index = self.device_stream = -1
        self._drawn, self._depth = record.drawn, record.depth

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds outside of the spans inside."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def cpu_time(self) -> float:
        """Microseconds from start to end, as cpu_time_total: an event is one call."""
        return self.cpu_time_total

    @property
    def device_time_total(self) -> float:
        """Microseconds on the stream from the first to the last work of the span; 0 without CUDA."""
        return 0.0 if self.device_range is None else self.device_range.elapsed_us()

    device_time = device_time_total

    @property
    def self_device_time_total(self) -> float:
        """Microseconds on the stream outside of the spans inside."""
        inside = sum(child.device_time_total for child in self.cpu_children)
        return max(0.0, self.device_time_total - inside) if self.device_range is not None else 0.0

    @property
    def self_memory_usage(self) -> int:
        """Bytes of arrays that the call made, or of gradients that the node made; 0 without profile_memory."""
        return int(self.facts.get("allocated", 0))

    @property
    def memory_usage(self) -> int:
        """The bytes that this span and those inside made."""
        return self.self_memory_usage + sum(child.memory_usage for child in self.cpu_children)

    cpu_memory_usage = memory_usage

    def counted(self, kind: str) -> int:
        """How many instants of a kind there are in this span and those inside."""
        own = sum(event.kind == kind for event in self.instants)
        return own + sum(child.counted(kind) for child in self.cpu_children)

    @property
    def launches(self) -> int:
        """Launches of this package's kernels, and calls of cuBLAS."""
        return self.counted(LAUNCH)

    @property
    def products(self) -> int:
        """Matrix products."""
        return self.counted(PRODUCT)

    def bytes_copied(self, way: str) -> int:
        """Bytes that went "host to device", "device to host" or "device to device"."""
        own = sum(event.facts["bytes"] for event in self.instants if event.kind == COPY and event.name == way)
        return own + sum(child.bytes_copied(way) for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}, {self.cpu_time_total:.3f} us, thread {self.thread}>"


class EventList(list[FunctionEvent]):
    """The events of a profile, by track in the order in which they began."""

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventAverages:
        """The spans of equal name, summed."""
        return averages([e for e in self if not e.is_instant], group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """All spans as one row."""
        return self.key_averages().total()

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, top_level_events_only: bool = False, **options: Any
    ) -> str:
        """A table with a row per span, or per span in no other, in order, unless `sort_by` says otherwise."""
        shown = [e for e in self if not e.is_instant and not (top_level_events_only and e.cpu_parent)]
        rows = EventAverages([row for e in shown for row in averages([e], True, 0)])
        return rows.table(sort_by, row_limit, **options)

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Writes a line per stack, "outer;inner;name microseconds", for flame graphs.

        ValueError for another metric than self_cpu_time_total and self_device_time_total; RuntimeError if no stacks
        were recorded.
        """
        names = ("self_cpu_time_total", "self_device_time_total", "self_cuda_time_total")
        if metric not in names:
            raise ValueError(f"export_stacks: metric is one of {', '.join(names)}; got {metric!r}")
        spans = [e for e in self if not e.is_instant]
        if spans and not any(e.stack for e in spans):
            raise RuntimeError("export_stacks: no stacks were recorded; profile with with_stack=True")
        sums: Counter[str] = Counter()
        for e in spans:
            if e.stack:
                frames = [frame.replace(";", ":").replace(" ", "_") for frame in reversed(e.stack)]
                sums[";".join([*frames, e.name])] += int(getattr(e, metric.replace("cuda", "device")))
        lines = [f"{stack} {time}\n" for stack, time in sums.items() if time > 0]
        Path(path).write_text("".join(lines), encoding="utf-8")


def events_of(recorder: Recorder) -> EventList:
    """The events of a finished recording."""
    result = EventList()
    for thread, log in enumerate(recorder.logs):
        result += _tree(recorder, log, thread)
    _tie([e for e in result if not e.is_instant])
    return result


def _tree(recorder: Recorder, log: Log, thread: int) -> list[FunctionEvent]:
    """The events of a thread; number and depth of the records give the tree."""
    made: list[FunctionEvent] = []
    around: deque[FunctionEvent] = deque()
    for record in sorted(map(Record._make, log.records)):
        event = FunctionEvent(record, thread, recorder.started)
        if record.marks is not None and recorder.device is not None:
            start, end, mark = recorder.device.times(record.marks)
            event.device_range = Interval((start - recorder.started) / 1e3, (end - recorder.started) / 1e3)
            event.device_index, event.device_stream = mark.device, mark.stream
        while around and around[-1]._depth >= event._depth:
            around.pop()
        parent = event.cpu_parent = around[-1] if around else None
        if not event.is_instant:
            around.append(event)
        if parent is not None:
            (parent.instants if event.is_instant else parent.cpu_children).append(event)
        made.append(event)
    return made


def _tie(spans: Sequence[FunctionEvent]) -> None:
    """Finds the call that made each node that ran.

    Under transforms the node of a level is made after the calls below it: the last call before the node's number is
    its own, if that has its name or is of the thread that ran the node.
    """
    calls = [e for e in spans if e.kind in (OP, FUNCTION)]
    by_number = {e.sequence_nr: e for e in calls if e.sequence_nr >= 0}
    by_thread: dict[int, list[FunctionEvent]] = {}
    for e in sorted(calls, key=lambda e: e._drawn):
        by_thread.setdefault(e.thread, []).append(e)
    for node in spans:
        if node.kind == NODE and node.sequence_nr >= 0:
            node.forward = by_number.get(node.sequence_nr) or _latest(node, by_thread)


def _latest(node: FunctionEvent, by_thread: dict[int, list[FunctionEvent]]) -> FunctionEvent | None:
    found: list[FunctionEvent] = []
    for thread, calls in by_thread.items():
        i = bisect.bisect_left(calls, node.sequence_nr, key=lambda e: e._drawn) - 1
        if i < 0 or calls[i].sequence_nr >= 0 or calls[i].time_range.start > node.time_range.start:
            continue
        if thread == node.thread or node.name.startswith(calls[i].name.capitalize()):
            found.append(calls[i])
    return max(found, key=lambda e: e._drawn, default=None)


