"""Several processes that train together, or share a Hessian: time, bytes and calls, on one rank and on two.

Each rank has one core and one thread. A step of DistributedDataParallel and Adam is that of PyTorch's on gloo, written
once for both libraries; bytes are counted against a ring's, which no all-reduce can go below. Hessians of a batch and
of many inputs are shared by the ranks and gathered; their sizes stay the same, so two ranks should take half as long.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .common import device_kind, make_parser, run_workload
from .peers import load_peers
from .report import OURS, Report
from .scaling_ranks import hessian_names, names
from .timing import Timing

NAME = "scaling"
PEERS = ("torch",)
RANKS = (1, 2)
LIMIT_S = 300
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
PARTS = ("communication alone", "step alone")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=15)


def measured(ranks: int, with_torch: bool, args: argparse.Namespace) -> dict[str, Any]:
    """What benchmarks/scaling_ranks.py measures on so many ranks."""
    launcher = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if launcher is None:
        raise RuntimeError("needs mpiexec and mpi4py: pip install 'autograd-gpu[dist]'")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        options = [*(["--torch"] if with_torch else []), *(["--tiny"] if args.tiny else [])]
        command = [
            launcher, "-bind-to", "none", "-n", str(ranks), sys.executable, "-m", "benchmarks.scaling_ranks", str(out),
            "--repeats", str(args.repeats), "--sample-s", str(0.001 if args.tiny else 0.02), *options,
        ]  # fmt: skip
        subprocess.run(command, check=True, timeout=LIMIT_S, env={**os.environ, **ONE_THREAD})
        results: dict[str, Any] = json.loads(out.read_text())
        return results


def named(case: str, ranks: int) -> str:
    """The name of a case on so many ranks."""
    return f"{case}, {ranks} rank{'s' if ranks > 1 else ''}"


def add(report: Report, ranks: int, case: str, results: dict[str, Any]) -> None:
    """Adds a case: the libraries, and in notes what a step consists of."""
    timings = {name: Timing(tuple(one["samples_s"]), one["calls"]) for name, one in results.items()}
    parts = {name: timings.pop(name) for name in PARTS if name in timings}
    notes = [f"{name} takes {timing.median * 1e3:.3g} ms" for name, timing in parts.items()] if ranks > 1 else []
    counts = {name: one["counts"] for name, one in results.items()}
    report.add(named(case, ranks), timings, counts=counts, notes=notes)


def run(args: argparse.Namespace) -> Report:
    """Run all cases on each number of ranks."""
    present, absent = load_peers(args.peers, PEERS, args.device)
    kind = device_kind(args.device)
    title, config = f"Ranks with a core each, float32, {args.device}", {"tiny": args.tiny, "ranks": RANKS}
    report = Report(NAME, title, kind, config, absent, args.json if kind == "cpu" else None)
    if kind != "cpu":
        print(f"{NAME}: ranks with a core each are measured on the CPU only", file=sys.stderr)
        return report
    report.plan([named(case, ranks) for ranks in RANKS for case in names(args.tiny, ranks)])
    by_case: dict[str, dict[int, float]] = {}
    for ranks in RANKS:
        with report.attempt(*[named(case, ranks) for case in names(args.tiny, ranks)]):
            for case, results in measured(ranks, "torch" in present, args).items():
                add(report, ranks, case, results)
                by_case.setdefault(case, {})[ranks] = statistics.median(results[OURS]["samples_s"])
    for case, times in by_case.items():
        if case in hessian_names(args.tiny) and len(times) == len(RANKS):
            report.summary[f"{case}: speed-up on {RANKS[-1]} ranks"] = {OURS: round(times[1] / times[RANKS[-1]], 2)}
    report.save()
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
