"""The checks by name, and what they ask of CuPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from autograd_gpu.backend.arrays import dtypes
from autograd_gpu.backend.cuda import runtime

Found = dict[str, Any]
FLOATS = {"float64": dtypes.float64, "float32": dtypes.float32, "float16": dtypes.float16, "bfloat16": dtypes.bfloat16}


class Lab:
    """CuPy, or the stand-in that takes its place."""

    def __init__(self) -> None:
        self.cp = runtime.require_device(0)
        self.emulated = hasattr(self.cp, "_emulation")
        self.random = np.random.default_rng(0)

    def size(self, real: Any, emulated: Any) -> Any:
        """A size, or sizes, that tells something on a GPU; the stand-in is slow."""
        return emulated if self.emulated else real

    def normal(self, *shape: int, dtype: Any = np.float32) -> Any:
        """An array on the device."""
        return self.cp.asarray(self.random.standard_normal(shape).astype(dtype))

    def wait(self) -> None:
        self.cp.cuda.runtime.deviceSynchronize()

    def judge(self, good: bool) -> bool:
        """A verdict on times, which the stand-in does not have."""
        return bool(good) or self.emulated

    def refuse_emulated(self, why: str) -> None:
        if self.emulated:
            raise RuntimeError(f"needs a real device: {why}")


@functools.cache
def lab() -> Lab:
    """The process' own."""
    return Lab()


class Check(NamedTuple):
    """A function that answers what it found, "ok" among it, in so many seconds at most."""

    run: Callable[[Lab], Found]
    seconds: float
    questions: tuple[int, ...]
    captures: bool  # then an error may leave a capture open, and the process is replaced
    breaks: bool  # whether it is meant to leave a device that answers no more


CHECKS: dict[str, Check] = {}


def check(
    name: str, *questions: int, seconds: float = 6.0, captures: bool = False, breaks: bool = False
) -> Callable[[Callable[[Lab], Found]], Callable[[Lab], Found]]:
    """Puts a function into the table."""

    def put(run: Callable[[Lab], Found]) -> Callable[[Lab], Found]:
        CHECKS[name] = Check(run, seconds, questions, captures, breaks)
        return run

    return put


def difference(actual: Any, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    exact = np.asarray(expected, np.float64)
    values = np.asarray(actual.get() if hasattr(actual, "get") else actual).astype(np.float64)
    if values.shape != exact.shape:
        raise AssertionError(f"the shape is {values.shape}, not {exact.shape}")
    return float(np.abs(values - exact).max(initial=0.0) / max(np.abs(exact).max(initial=0.0), 1e-300))
