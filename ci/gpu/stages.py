"""The stages: what each runs, and for how long."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .outdir import FAILURES, PROBE
from .process import Limits

TOTAL, RESERVE = 540.0, 6.0  # seconds for everything; of these for packing at the end
LEAST = 4.0  # seconds that a stage must have for itself, else it does not begin
# By worth: what the library is for, then its kernels (benchmarks/together.py has their parts of the time).
BENCHMARKS = (
    "hessian", "train_mlp", "saved_memory", "kernels", "small_graph", "optimizer_step", "ops", "transforms", "unrolled",
    "foreach", "programs", "pinn",
)  # fmt: skip


class Places(NamedTuple):
    """Where a stage reads and writes."""

    out: Path
    results: Path  # packed into the archive
    cache: Path  # CuPy's compiled kernels
    device: Path
    passed: Path  # names of tests to leave out


class Stage(NamedTuple):
    """Seconds, and the command: it gets the places and the seconds after which it has to end by itself."""

    limit: float | None  # in all, the end by force included; None: what is left
    spare: float  # so long before the limit it ends by itself
    grace: float  # so long before the limit it is interrupted, if it has not
    command: Callable[[Places, float], list[str]]
    grows: bool = True  # as the last stage of a run it takes all that is left

    def seconds(self, left: float, scale: float, last: bool) -> float:
        """What the stage gets of the time that is left."""
        return left if self.limit is None or (last and self.grows) else min(self.limit * scale, left)

    def limits(self, seconds: float, scale: float) -> Limits:
        """Of a process that has so many seconds."""
        return Limits(seconds - self.grace * scale, seconds - self.grace * scale / 8, seconds)


def _module(*words: object) -> list[str]:
    return [os.environ.get("PYTHON", "python3"), "-m", *map(str, words)]


def _device(at: Places, seconds: float) -> list[str]:
    return _module("ci.gpu.device", at.device, "--seconds", seconds)


def _probe(at: Places, seconds: float) -> list[str]:
    return _module("benchmarks.probe", "--lines", at.out / PROBE, "--seconds", seconds)


def _suite(name: str) -> Callable[[Places, float], list[str]]:
    def command(at: Places, seconds: float) -> list[str]:
        words = ["--results", at.results, "--failures", at.out / FAILURES, "--passed", at.passed]
        return _module("ci.gpu.suite", name, "--seconds", seconds, *words)

    return command


def _bench(at: Places, seconds: float) -> list[str]:
    words = ["--together", "--seconds", seconds, "--only", ",".join(BENCHMARKS)]
    words += ["--out", at.results, "--lines", at.results / "bench.jsonl"]
    measured = ["--device", "cuda", "--peers", "torch,torch.func,jax", "--repeats", 7]  # of each workload
    return _module("benchmarks", *words, *measured)


def _sanitizer(at: Places, seconds: float) -> list[str]:
    return _module("ci.gpu.sanitizer", at.results / "sanitizer.jsonl", "--seconds", seconds)


# pytest's workers have up to ten seconds to end once they are asked to, and then its XML is written.
STAGES = {
    "device": Stage(10, 4, 3, _device, grows=False),
    "probe": Stage(60, 10, 5, _probe, grows=False),
    "capture": Stage(45, 15, 8, _suite("capture")),
    "core": Stage(90, 25, 14, _suite("core")),
    "bench": Stage(100, 14, 8, _bench),
    "ops": Stage(150, 25, 14, _suite("ops")),
    "rest": Stage(None, 25, 14, _suite("rest")),
    "sanitizer": Stage(None, 15, 8, _sanitizer),
}
DEFAULT = tuple(name for name in STAGES if name != "sanitizer")
SUITES = ("capture", "core", "ops", "rest")


def plan(names: Sequence[str], scale: float) -> list[tuple[str, float]]:
    """The stages of a run with the seconds that each has at most, if those before take all of theirs."""
    left, rows = (TOTAL - RESERVE) * scale, []
    for name in names:
        rows.append((name, STAGES[name].seconds(left, scale, name == names[-1])))
        left -= rows[-1][1]
    return rows
