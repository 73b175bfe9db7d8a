"""profile: records what a block of code does; PyTorch's face."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..backend.counters import TRACING
from ..backend.cuda import runtime
from ..errors import check_count, warn_user
from ..modes import MODES, TRANSFORMED
from . import chrome
from .averages import EventAverages
from .counting import forget, observe
from .device_time import DeviceClock
from .events import EventList, events_of
from .log import RANGE
from .recorder import Recorder, Span
from .schedules import ProfilerAction, ProfilerActivity, always

RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Where a profile can take times on this machine.

    >>> ag.profiler.ProfilerActivity.CPU in ag.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if runtime.is_available() else set())


class profile:
    """Context manager that records the calls of ops, the runs of nodes, hooks and optimizer steps inside.

    It sees the calls of its own thread, and backward passes of all threads. activities: ProfilerActivity.CPU and CUDA,
    by default what the machine has; CUDA adds an event at both ends of each span, and NVTX ranges. record_shapes: the
    shapes of inputs; profile_memory: bytes that calls make, and a track of live bytes by category; with_stack: the
    user's lines. schedule: a function from the number of a step to a ProfilerAction, see `schedule`; call `step()` at
    the end of each step. on_trace_ready(profile) is called at the end of each cycle, or of the block. max_events: the
    latest records that are kept of each thread; a warning says how many were dropped.

    RuntimeError if another profile is recording; profiles do not nest.

    >>> x = ag.ones(2, 2, requires_grad=True)
    >>> with ag.profiler.profile() as prof:
    ...     (x @ x).sum().backward()
    >>> [event.name for event in prof.events() if event.kind in ("op", "node")]
    ['matmul', 'sum', 'SumBackward0', 'MatmulBackward0', 'AccumulateGrad']
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, max_events: int = 1_000_000,
    ) -> None:  # fmt: skip
        chosen = supported_activities() if activities is None else set(activities)
        if not chosen or not chosen <= set(ProfilerActivity):
            raise ValueError("profile: activities are ProfilerActivity.CPU and ProfilerActivity.CUDA, at least one; "
                             f"got {activities!r}")
        check_count("profile", "max_events", max_events)
        self.activities, self.record_shapes, self.profile_memory = chosen, record_shapes, profile_memory
        self.with_stack, self.max_events = with_stack, max_events
        self.schedule, self.on_trace_ready = schedule or always, on_trace_ready
        self._by_steps = schedule is not None
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._metadata: dict[str, Any] = {}
        self._recorder: Recorder | None = None  # the one that records
        self._done: Recorder | None = None  # the one that has
        self._events: EventList | None = None
        self._step: Span | None = None
        self._thread: int | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins the profile, at its step 0."""
        if self._thread is not None:
            raise RuntimeError("profile: it has been started already; stop() it first")
        if TRACING.tracer is not None:
            raise RuntimeError("profile: another profile is recording, and profiles do not nest; end it first, or mark "
                               "the part of interest by record_function")
        self.step_num = 0
        self._go_to(self.schedule(0))
        self._thread = threading.get_ident()

    def stop(self) -> None:
        """Ends the profile; calls on_trace_ready if something was recorded since the last call."""
        self._check_thread("stop")
        recording = self.current_action in RECORDING
        self._go_to(ProfilerAction.NONE)
        self._thread = None
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Ends a step of the schedule, and begins the next."""
        self._check_thread("step")
        before = self.current_action
        self.step_num += 1
        after = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._go_to(ProfilerAction.NONE)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif before is ProfilerAction.WARMUP and after in RECORDING:
            self._go_to(ProfilerAction.NONE)  # what was recorded to warm up is dropped
        self._go_to(after)

    def _check_thread(self, method: str) -> None:
        if self._thread is None:
            raise RuntimeError(f"profile: {method}() without start(), or after stop()")
        if self._thread != threading.get_ident():
            raise RuntimeError(f"profile: {method}() is called on the thread that has started the profile")

    def _go_to(self, action: ProfilerAction) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if action is ProfilerAction.NONE:
            self._end()
        elif self._recorder is None:
            self._begin()
        self.current_action = action
        if self._recorder is not None and self._by_steps:
            self._step = self._recorder.span(RANGE, f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _begin(self) -> None:
        if TRACING.tracer is not None:
            raise RuntimeError("profile: another profile is recording, and profiles do not nest; end it first")
        cuda = ProfilerActivity.CUDA in self.activities
        device = DeviceClock() if cuda and (runtime.is_available() or runtime.require_device(0)) else None
        recorder = Recorder(self.max_events, self.record_shapes, self.with_stack, self.profile_memory, device)
        observe(recorder)
        TRACING.tracer = self._recorder = recorder
        MODES.stack = (recorder, *MODES.stack)
        MODES.bits |= TRANSFORMED

    def _end(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        stack = MODES.stack = tuple([level for level in MODES.stack if level is not recorder])
        if not stack:
            MODES.bits &= ~TRANSFORMED
        TRACING.tracer = None
        forget(recorder)
        recorder.finish()
        self._done, self._events = recorder, None
        dropped = sum([log.dropped for log in recorder.logs])
        if dropped and self.current_action in RECORDING:
            warn_user(f"profile: {dropped} records were dropped, the oldest of each thread; profile fewer steps by a "
                      f"schedule, or raise max_events={self.max_events}")

    def _finished(self, method: str) -> Recorder:
        if self._done is None:
            raise RuntimeError(f"profile: {method}() before anything was recorded; call it after the block, or in "
                               "on_trace_ready")
        return self._done

    def events(self) -> EventList:
        """The events of the last cycle."""
        if self._events is None:
            self._events = events_of(self._finished("events"))
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventAverages:
        """The events summed by name; print its `table(sort_by=..., row_limit=...)`.

        group_by_input_shape: sum calls with equal shapes, which record_shapes records; group_by_stack_n: with equal
        innermost frames, which with_stack records.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def live_bytes(self) -> list[tuple[float, dict[str, dict[str, int]]]]:
        """Samples of live bytes: (microseconds, {device: {category: bytes}}). RuntimeError without profile_memory."""
        done = self._finished("live_bytes")
        if done.ledger is None:
            raise RuntimeError("profile: live bytes were not recorded; profile with profile_memory=True")
        return [((moment - done.started) / 1e3, {device: dict(zip(chrome.CATEGORIES, counts, strict=True))
                                                 for device, counts in totals.items()})
                for moment, totals in done.samples]  # fmt: skip

    def export_chrome_trace(self, path: str | Path) -> None:
        """Writes a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open; compressed if it ends in .gz."""
        done = self._finished("export_chrome_trace")
        metadata = {"dropped": sum([log.dropped for log in done.logs]), **self._metadata}
        chrome.write(path, chrome.trace_of(self.events(), done.logs, list(done.samples), done.started, metadata))

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their microseconds, for flame graphs; they are recorded by with_stack=True."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a string to the trace."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value, given as JSON, to the trace."""
        self._metadata[key] = json.loads(value)


def tensorboard_trace_handler(
    dir_name: str | Path, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes a trace of each cycle into the folder, by the names that TensorBoard looks for.

    worker_name: unique in the folder; by default from the host and the process.
    """

    def handler(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(folder / name)

    return handler
