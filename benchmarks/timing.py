"""Interleaved timing of the same work in several libraries.

1. Each contender is called until it is warm (compiled, caches filled).
2. Calls shorter than a sample are repeated: the count doubles until the sample is long enough.
3. Samples are taken in turns (ours, peer, ours, peer, ...), so that a slow minute of the machine
   hits everybody. A pause before each lets the workers of the library before go to sleep.
4. Medians and minima are kept, with every sample.

Note [Garbage collector]
    Python's collector stays ON while a sample runs, as it does for users: a library that leaves
    reference cycles behind has to pay for them. What was loaded and built before timing is frozen
    (`gc.freeze`), so nobody pays for the size of somebody else's modules, and each sample starts
    after a full collection. `collector=False` turns it off during the samples.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

Call = Callable[[], Any]
Clock = Callable[[Call, int], float]

PAUSE_S = 0.01


def host_clock(call: Call, count: int) -> float:
    """Seconds that `count` calls take on the host."""
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return time.perf_counter() - start


def cupy_clock(call: Call, count: int) -> float:
    """Seconds between two CUDA events around `count` calls on CuPy's current stream."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in repeat(None, count):
        call()
    stop.record()
    stop.synchronize()
    return cupy.cuda.get_elapsed_time(start, stop) / 1e3


def torch_clock(call: Call, count: int) -> float:
    """Seconds between two CUDA events around `count` calls on PyTorch's current stream."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in repeat(None, count):
        call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3


def jax_clock(call: Call, count: int) -> float:
    """Seconds on the host until the last of `count` results is ready (JAX shows no events)."""
    import jax

    start = time.perf_counter()
    for _ in repeat(None, count):
        result = call()
    jax.block_until_ready(result)
    return time.perf_counter() - start


@dataclass(frozen=True)
class Contender:
    """One library's way to do the work: a name, what to call, and the clock that fits it."""

    name: str
    call: Call
    clock: Clock = host_clock


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one entry per sample; each sample made `calls` calls."""

    samples: tuple[float, ...]
    calls: int = 1

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        return min(self.samples)


@contextmanager
def garbage_collector(enabled: bool = True) -> Iterator[None]:
    """Measure under a collector that sees only what is made from here on. Note [Garbage collector]."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    (gc.enable if enabled else gc.disable)()
    try:
        yield
    finally:
        gc.unfreeze()
        (gc.enable if was_enabled else gc.disable)()


def settle(pause_s: float) -> None:
    """Bring the process to rest before a sample."""
    gc.collect()
    time.sleep(pause_s)


def _seconds(contender: Contender, calls: int, enough: float) -> float:
    """How long `calls` calls take; a time that would be enough is taken twice, in case another process had a part."""
    seconds = contender.clock(contender.call, calls)
    return seconds if seconds < enough else min(seconds, contender.clock(contender.call, calls))


def calibrate(contender: Contender, sample_s: float) -> int:
    """How many calls fill a sample of `sample_s` seconds; also warms the contender up."""
    contender.clock(contender.call, 1)
    calls = 1
    while (seconds := _seconds(contender, calls, sample_s / 2)) < sample_s / 2:
        calls *= 2
    return max(1, round(calls * sample_s / seconds)) if calls > 1 else 1


def interleave(
    contenders: Sequence[Contender],
    repeats: int,
    *,
    sample_s: float = 0.005,
    collector: bool = True,
    pause_s: float = PAUSE_S,
) -> dict[str, Timing]:
    """Time every contender `repeats` times, in turns; name -> Timing. Calls that start no workers need no pause."""
    samples: dict[str, list[float]] = {c.name: [] for c in contenders}
    with garbage_collector(collector):
        calls = {c.name: calibrate(c, sample_s) for c in contenders}
        for _ in range(repeats):
            for c in contenders:
                settle(pause_s)
                if calls[c.name] > 1:  # the pause cooled the caches
                    c.clock(c.call, 1)
                samples[c.name].append(c.clock(c.call, calls[c.name]) / calls[c.name])
    return {name: Timing(tuple(taken), calls[name]) for name, taken in samples.items()}
