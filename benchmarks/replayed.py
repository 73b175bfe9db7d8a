"""Our work by ag.compile: with native code and without on the CPU, with CUDA graphs and without on CUDA."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import autograd_gpu as ag
from autograd_gpu.backend.formulas.native import switch

from .common import device_kind
from .graphed import NEED_CUDA, Step
from .report import REPLAY, REPLAYED_GRAPH, REPLAYED_NUMPY


def replayed(work: Step, mode: str = "default") -> Step:
    """The work by ag.compile."""
    fast: Step = ag.compile(work, fullgraph=True, mode=mode)
    return fast


def without_native_code(work: Step) -> Step:
    """The work by ag.compile, recorded and run without native code."""
    fast = replayed(work)

    @functools.wraps(work)
    def call(*args: Any) -> Any:
        with switch.numpy_code_alone():
            return fast(*args)

    return call


def replays_on(device: str) -> dict[str, Callable[[Step], Step]]:
    """Name of a contender -> what makes it of our work."""
    if device_kind(device) == "cuda":
        return {REPLAY: replayed, REPLAYED_GRAPH: functools.partial(replayed, mode="reduce-overhead")}
    return {REPLAY: replayed, REPLAYED_NUMPY: without_native_code} if switch.is_on() else {REPLAY: replayed}


def absent_on(device: str) -> dict[str, str]:
    """The contenders that cannot be measured there, with the reason."""
    if device_kind(device) == "cuda":
        return {}
    return NEED_CUDA | ({} if switch.is_on() else {REPLAYED_NUMPY: "native code is off, and no row runs with it"})


@contextmanager
def compiling_at_once(enabled: bool = True) -> Iterator[None]:
    """Native code is compiled at the first call, so that no sample has a part without it."""
    before = switch.LOADS, switch.COMPILES
    if enabled:
        switch.LOADS = switch.COMPILES = 0
    try:
        yield
    finally:
        switch.LOADS, switch.COMPILES = before
