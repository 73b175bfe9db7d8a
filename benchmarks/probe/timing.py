"""Times of calls, on the host and on the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from .table import Lab

SAMPLES = 7


def host_us(lab: Lab, call: Callable[[], Any], wait: Callable[[], Any] | None = None) -> float:
    """Median microseconds that the host takes for a call; the device is waited for outside of that."""
    calls, wait = lab.size(200, 3), wait or lab.wait
    for _ in range(lab.size(20, 1)):
        call()
    taken = []
    for _ in range(SAMPLES):
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append((time.perf_counter() - begin) / calls)
    wait()
    return round(statistics.median(taken) * 1e6, 3)


def device_us(lab: Lab, call: Callable[[], Any]) -> float:
    """Median microseconds between events around twenty calls on the current stream."""
    cp, calls = lab.cp, lab.size(20, 1)
    call()
    taken = []
    for _ in range(SAMPLES):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        taken.append(cp.cuda.get_elapsed_time(begin, end) * 1e3 / calls)
    return round(statistics.median(taken), 3)


def wall_ms(lab: Lab, work: Callable[[], Any]) -> float:
    """Least milliseconds until the device has done what `work` asks for."""
    work()
    taken = []
    for _ in range(lab.size(SAMPLES, 1)):
        lab.wait()
        begin = time.perf_counter()
        work()
        lab.wait()
        taken.append(time.perf_counter() - begin)
    return round(min(taken) * 1e3, 4)
