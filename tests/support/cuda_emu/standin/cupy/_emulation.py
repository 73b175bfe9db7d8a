"""How the stand-in behaves: for tests only, product code never imports this.

AUTOGRAD_GPU_EMU_SCHEDULE, AUTOGRAD_GPU_EMU_ADDRESSES and AUTOGRAD_GPU_EMU_DEVICES set it from the environment. With
AUTOGRAD_GPU_EMU_COMPUTES=0 the stand-in computes nothing: see README.md.
"""

from __future__ import annotations

import os
import random

from ._errors import HazardError, RaceError
from ._launches import counted as counted

__all__ = ["SETTINGS", "HazardError", "RaceError", "check", "configure", "counted", "forget", "found", "launches"]


class _Settings:
    schedule = "late"
    addresses = "unique"  # or "pool": see _memory.py
    random = random.Random(0)  # decides for the schedule "random"
    computes = os.environ.get("AUTOGRAD_GPU_EMU_COMPUTES", "1") != "0"
    devices = int(os.environ.get("AUTOGRAD_GPU_EMU_DEVICES", "1"))
    memory = 8 << 30  # bytes of each device
    kernel_check = "none"  # the emulator's build of kernels: none, races


SETTINGS = _Settings()
FOUND: list[Exception] = []  # in places that cannot raise, such as the freeing of memory
launches: list[tuple[str, tuple, tuple]] = []  # name, grid and block of the latest kernels


def configure(
    schedule: str | None = None, memory: int | None = None, kernel_check: str | None = None,
    addresses: str | None = None,
) -> None:  # fmt: skip
    """Changes the settings that are given, from the next operation on.

    `schedule` is late (work runs only when something waits for it), eager (at once) or random:SEED (any time between).
    `addresses` are unique (none is used twice) or pool (they repeat as CuPy's pool repeats them), for what pools take
    from the device from then on.

    >>> configure(schedule="random:3")
    """
    if schedule is not None:
        name, _, seed = schedule.partition(":")
        if name not in ("late", "eager", "random") or (seed and not seed.isdigit()):
            raise ValueError(f"schedule is late, eager or random:SEED, not {schedule!r}")
        SETTINGS.schedule, SETTINGS.random = name, random.Random(int(seed or 0))
    if addresses is not None:
        if addresses not in ("unique", "pool"):
            raise ValueError(f"addresses are unique or pool, not {addresses!r}")
        SETTINGS.addresses = addresses
    SETTINGS.memory = memory or SETTINGS.memory
    SETTINGS.kernel_check = kernel_check or SETTINGS.kernel_check


def found(error: Exception) -> None:
    """Keeps a hazard that was seen where nothing can be raised; the next call to the device raises it."""
    FOUND.append(error)


def forget() -> None:
    """Drops what was found: one bug may be found more than once."""
    FOUND.clear()


def check() -> None:
    """Raises the first hazard found since the last call, if there is one."""
    if FOUND:
        hazard = FOUND[0]
        FOUND.clear()
        raise hazard


configure(schedule=os.environ.get("AUTOGRAD_GPU_EMU_SCHEDULE", "late"),
          addresses=os.environ.get("AUTOGRAD_GPU_EMU_ADDRESSES", "unique"))
