"""A run of stages, one after the other: each within its limit, and what it has left packed again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import kernel_cache, process
from .log import Log
from .outdir import DEVICE, FAILURES, OUTCOMES, PROBE, Archive, OutDir, Summary, json_lines
from .rows import passed_in, row
from .stages import LEAST, RESERVE, STAGES, SUITES, TOTAL, Places

ROOT = Path(__file__).resolve().parents[2]
RESULTS_EVERY, KERNELS_EVERY = 2.0, 30.0  # seconds between two packings, while a stage runs
FAR = 10.0  # kernels are packed so many seconds before an interrupt at the latest: that takes one or two


class Run:
    """Everything that one call of ci/gpu.sh does; `ask` makes it end early. `scale` multiplies all times."""

    def __init__(self, folder: Path, scratch: Path, earlier: Path | None, scale: float) -> None:
        self.begin, self.scale, self.asked = time.monotonic(), scale, 0
        self.out = OutDir(folder, scratch)
        if earlier is not None:
            self.out.seed(earlier)
        self.log, self.summary = Log(self.out), Summary(self.out)
        results = scratch / "results"
        self.archive = Archive(self.out, results, self.log.say)
        self.at = Places(folder, results, scratch / "kernels", scratch / DEVICE, scratch / "passed.json")
        self.parts = {name: results / f"{name}{OUTCOMES}" for name in SUITES}  # where a stage's lines are
        self.parts |= {"probe": folder / PROBE, "bench": results / "bench.jsonl"}
        self.parts |= {"sanitizer": results / "sanitizer.jsonl"}
        self._bring(earlier)
        self._published = self._packed = self.begin
        self.commit = commit()

    def _bring(self, earlier: Path | None) -> None:
        """Kernels that were compiled before, and the names of tests that passed."""
        self.at.cache.mkdir()
        self.earlier = {} if earlier is None else passed_in(earlier)
        tests = [test for lines in self.earlier.values() for test in lines]
        self.at.passed.write_text(json.dumps(tests))
        kernels = kernel_cache.unpack(self.at.out, self.at.cache, self.log.say)
        if earlier is not None:
            if earlier.resolve() != self.at.out:
                kernels = kernel_cache.unpack(earlier, self.at.cache, self.log.say)
            self.log.say(f"{earlier} brings {kernels} compiled kernels and {len(tests)} tests that passed")
        self._kernels = kernel_cache.stamp(self.at.cache)

    def ask(self, number: int, frame: Any) -> None:
        """A signal: ends the stage that runs, and then the run."""
        self.asked = number

    def stage(self, name: str, last: bool) -> bool:
        """Runs a stage, the last one or not, if there is time for it; whether it passed."""
        stage, scale = STAGES[name], self.scale
        left = (TOTAL - RESERVE) * scale - (time.monotonic() - self.begin)
        seconds = stage.seconds(left, scale, last)
        own = seconds - stage.spare * scale
        if own < LEAST * scale:
            self.log.say(f"{name}: not started, no time is left")
            if name not in self.summary.rows:
                self.summary.set(name, exit_code=process.TIMEOUT, outcome="not started", note="no time was left")
            return False
        facts = {"begun": datetime.now(UTC).isoformat(timespec="seconds"), "commit": self.commit}
        self._clear(name)
        self.summary.set(name, outcome="running", **facts)
        command = stage.command(self.at, round(own, 2))
        self.log.say(f"{name}: {' '.join(command)}")
        self.log.begin()
        ended = process.run(
            command, environment(self.at.cache), ROOT, stage.limits(seconds, scale), self.log.write, self._tick,
            lambda: bool(self.asked),
        )  # fmt: skip
        printed = self.log.end()
        print("\n".join(printed), flush=True)
        facts = row(ended, bool(self.asked), printed, self._parts_of(name)) | facts
        self.summary.set(name, **facts)
        self.log.say(f"{name}: {facts['outcome']}, exit code {ended.code} after {ended.seconds:.1f} s")
        self.publish()
        return ended.code == 0

    def _clear(self, name: str) -> None:
        """Removes what the stage writes anew. Tests that passed earlier keep their lines."""
        if name in self.parts:
            self.parts[name].unlink(missing_ok=True)
        if name in SUITES:
            self.out.drop_lines(FAILURES, lambda line: line["stage"] == name)
            (self.at.results / f"{name}.xml").unlink(missing_ok=True)
            lines = [line | {"earlier": True} for line in self.earlier.get(name, {}).values()]
            self.parts[name].write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _parts_of(self, name: str) -> list[dict[str, Any]]:
        path = self.parts.get(name)
        return list(json_lines(path.read_bytes())) if path is not None and path.exists() else []

    def _tick(self, left: float) -> None:
        """While a stage runs that is interrupted in so many seconds."""
        now = time.monotonic()
        far = left > FAR * self.scale and now - self._packed > KERNELS_EVERY * self.scale
        if far or now - self._published > RESULTS_EVERY * self.scale:
            self.publish(kernels=far)

    def publish(self, kernels: bool = True) -> None:
        """Brings OUTDIR up to date."""
        if self.at.device.exists() and (facts := self.at.device.read_bytes()) != self.out.read(DEVICE):
            self.out.write(DEVICE, facts)
        self.archive.pack()
        if kernels and self._kernels != (stamp := kernel_cache.stamp(self.at.cache)):
            kernel_cache.pack(self.at.cache, self.out, self.log.say)
            self._kernels = stamp
        self._published = time.monotonic()
        self._packed = self._published if kernels else self._packed

    def close(self) -> None:
        """The last thing to do."""
        self.publish()
        why = f", early, by {signal.Signals(self.asked).name}" if self.asked else ""
        self.log.say(f"ended after {time.monotonic() - self.begin:.1f} s{why}")
        self.log.close()


def environment(cache: Path) -> dict[str, str]:
    """What the stages see."""
    return os.environ | {
        "CUPY_CACHE_DIR": str(cache),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        # JAX would otherwise take three quarters of the GPU's memory at its first call.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def commit() -> str | None:
    """The checkout's commit, None outside of a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
