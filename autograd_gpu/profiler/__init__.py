"""Profiles of what a program does, by `profile`, and machine-independent counts, by `count`."""

from __future__ import annotations

from ..backend.counters import Counts
from ..missing_names import getattr_of
from .counting import count
from .events import EventList, FunctionEvent
from .profiling import profile, supported_activities, tensorboard_trace_handler
from .ranges import record_function
from .schedules import ProfilerAction, ProfilerActivity, schedule

__all__ = [
    "Counts", "EventList", "FunctionEvent", "ProfilerAction", "ProfilerActivity", "count", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
__getattr__ = getattr_of(__name__)
