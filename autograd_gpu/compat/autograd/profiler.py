"""PyTorch's older face of the profiler: `autograd.profiler.profile`; programs use `ag.profiler.profile`."""

from __future__ import annotations

from typing import Any

from ... import profiler
from ...missing_names import getattr_of
from ...profiler import EventList, FunctionEvent, ProfilerActivity, record_function

__all__ = ["EventList", "FunctionEvent", "profile", "record_function"]


class profile(profiler.profile):
    """A profile of the block; with `enabled` False it records nothing.

    >>> with ag.autograd.profiler.profile() as prof:
    ...     y = ag.ones(2).exp()
    >>> [event.name for event in prof.events()]
    ['exp']
    """

    def __init__(
        self, enabled: bool = True, *, use_cpu: bool = True, use_device: str | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False,
    ) -> None:  # fmt: skip
        on = {ProfilerActivity.CPU: use_cpu, ProfilerActivity.CUDA: use_device == "cuda"}
        if use_device not in (None, "cuda"):
            raise ValueError(f"profile: use_device is None or \"cuda\"; got {use_device!r}")
        self.enabled = enabled
        super().__init__(
            activities={activity for activity, chosen in on.items() if chosen}, record_shapes=record_shapes,
            profile_memory=profile_memory, with_stack=with_stack,
        )  # fmt: skip

    def __enter__(self) -> profile:
        if self.enabled:
            self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            self.stop()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The events as a table, a row per event."""
        return self.events().table(sort_by, row_limit, **options)

    def total_average(self) -> Any:
        """All events as one row."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that the events took, each moment counted once."""
        return float(self.total_average().self_cpu_time_total)


__getattr__ = getattr_of("autograd_gpu.autograd.profiler")
