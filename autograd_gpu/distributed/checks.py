"""The check mode: before each collective the ranks compare what they are about to do."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import numpy as np

from .failure import Call, DistBackendError
from .work import Work

_BYTES = 512  # of a description


class DebugLevel(Enum):
    """How much is checked: with DETAIL, what the ranks are about to do."""

    OFF = "OFF"
    INFO = "INFO"
    DETAIL = "DETAIL"


class _Active:
    level = DebugLevel.OFF
    detail = False


ACTIVE = _Active()


def set_debug_level(level: DebugLevel) -> None:
    """Sets how much is checked; all ranks set the same.

    With DebugLevel.DETAIL the ranks compare name, order, shapes, dtypes and other arguments of each collective before
    it begins, and raise an error that names the difference; this takes an exchange of 512 bytes.
    """
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: expected a DebugLevel such as DebugLevel.DETAIL, got {level!r}")
    ACTIVE.level, ACTIVE.detail = level, level is DebugLevel.DETAIL


def get_debug_level() -> DebugLevel:
    """What `set_debug_level` has set; at first the environment variable TORCH_DISTRIBUTED_DEBUG.

    >>> ag.distributed.get_debug_level()
    <DebugLevel.OFF: 'OFF'>
    """
    return ACTIVE.level


def set_debug_level_from_env() -> None:
    """Sets what TORCH_DISTRIBUTED_DEBUG says: OFF, INFO or DETAIL."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ValueError(f"TORCH_DISTRIBUTED_DEBUG is {name!r}; it must be OFF, INFO or DETAIL")
    set_debug_level(DebugLevel[name])


def compare(group: Any, call: Call) -> None:
    """DistBackendError, on all ranks, unless all are about to begin `call`."""
    text = str(call).encode()[:_BYTES]
    mine = np.frombuffer(text.ljust(_BYTES, b"\0"), np.uint8)
    every = np.empty((group.size(), _BYTES), np.uint8)
    request = group.engine.all_gather(every.reshape(-1), mine)
    Work(request, call, group.watch, group.timeout).wait()
    texts = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in every]
    if len(set(texts)) > 1:
        doing = "; ".join(f"rank {rank}: {text}" for rank, text in zip(group.ranks, texts, strict=True))
        raise DistBackendError(f"the ranks are about to begin different collectives. {doing}")


set_debug_level_from_env()
