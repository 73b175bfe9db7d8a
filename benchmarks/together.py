"""Workloads that share a process, within a time for all of them.

What is cut short keeps the cases that it has measured: each workload writes its JSON file after every case.
"""

from __future__ import annotations

import gc
import importlib
import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from .relay import Job, relay

PART = {"hessian": 0.35, "train_mlp": 0.3, "saved_memory": 0.3, "kernels": 0.5}  # of the time that is left then
SHARE = 1.5  # even parts, for the others: some are quick and leave theirs


class OutOfTime(BaseException):
    """Raised in the middle of a workload whose time is up; no workload catches it."""


def run_together(calls: Mapping[str, Sequence[str]], seconds: float, lines: Path | None) -> list[str]:
    """Runs workloads with their arguments, in this order; answers those that failed."""
    until, failed = time.monotonic() + seconds, []
    for answer in relay(_jobs(calls, until), partial(measure, calls), until):
        outcome = answer.value or {"outcome": "lost" if answer.begun else "not run", "error": answer.lost}
        line = json.dumps({"benchmark": answer.job.name, **outcome, "seconds": round(answer.seconds, 1)})
        print(line, flush=True)
        if lines is not None:
            with lines.open("a") as file:
                file.write(line + "\n")
        if outcome["outcome"] in ("failed", "lost"):
            failed.append(answer.job.name)
    return failed


def _jobs(calls: Mapping[str, Sequence[str]], until: float) -> Iterator[Job]:
    """Each gets a part of what is left when it begins."""
    for number, name in enumerate(calls):
        behind = len(calls) - number
        yield Job(name, (until - time.monotonic()) * min(PART.get(name, SHARE / behind), 1.0))


def measure(calls: Mapping[str, Sequence[str]], name: str, seconds: float) -> tuple[dict[str, str], bool]:
    """Runs one workload here; what came of it, and whether the device answers still."""
    module = importlib.import_module(f"benchmarks.{name}")
    outcome = {"outcome": "passed"}
    try:
        with at_most(seconds):
            module.main(list(calls[name]))
    except OutOfTime:
        outcome = {"outcome": "cut short"}
    except SystemExit as error:
        outcome = {"outcome": "failed", "error": str(error.code)}
    except Exception as error:
        traceback.print_exc()
        outcome = {"outcome": "failed", "error": f"{type(error).__name__}: {error}"}
    gc.collect()
    return outcome, outcome["outcome"] != "failed" or device_answers()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside after that time, and again every second, should somebody lose it."""

    def end(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    former = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)


def device_answers() -> bool:
    """Whether CuPy's device can still be used, if it is in use; an illegal address ends that for a whole process."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is None:
        return True
    try:
        cupy.cuda.runtime.deviceSynchronize()
    except Exception:
        traceback.print_exc()
        return False
    return True
