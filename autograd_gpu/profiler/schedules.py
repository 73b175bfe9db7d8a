"""schedule: which steps of a program a profile records."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """Where a profile takes times."""

    CPU = 0
    CUDA = 2


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The action of each step: skip_first steps nothing; then cycles of `wait` steps nothing, `warmup` steps recorded
    and dropped, `active` steps recorded.

    repeat: number of cycles, 0 without end. With skip_first_wait the first cycle does not wait. ValueError for a
    negative number, or without an active step.

    >>> steps = ag.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [steps(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, active, repeat, skip_first) < 0 or active < 1:
        raise ValueError("schedule: wait, warmup, repeat and skip_first are at least 0 and active at least 1; got "
                         f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: a step is numbered from 0; got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """The action without a schedule."""
    return ProfilerAction.RECORD
