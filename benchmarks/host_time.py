"""What the host does for a step on a CUDA device: launches, requests for memory, copies, waits, and time in Python.

There is no device: the steps run on a CuPy that knows shapes and addresses and computes nothing (the stand-in of
tests/support/cuda_emu with AUTOGRAD_GPU_EMU_COMPUTES=0), in a process of their own. So the figures are counts of the
host's work and never times of a GPU. The counts are exact, and tests/ci/test_host_time.py bounds them; the time is that
of this machine's CPU, and most of it is the stand-in's own. host_steps.py has the steps and explains the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.support.checkout import ROOT, STAND_IN

from . import host_steps
from .common import make_parser, run_workload
from .peers import load_peers
from .report import OURS, Report
from .timing import Timing

NAME = "host_time"
PEERS = ()
TITLE = "The host's work for a step on CUDA, counted on a CuPy that computes nothing: no times of a GPU"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=21)


def settings() -> dict[str, str]:
    """The environment of a process in which the stand-in takes the place of CuPy, and computes nothing."""
    path = os.pathsep.join(filter(None, [str(STAND_IN), str(ROOT), os.environ.get("PYTHONPATH")]))
    chosen = {"PYTHONPATH": path, "AUTOGRAD_GPU_EMU_COMPUTES": "0", "AUTOGRAD_GPU_EMU_DEVICES": "1"}
    return {**os.environ, **chosen}


def records(names: Iterable[str], repeats: int = 0, sample_s: float = 1e-4) -> Iterator[dict[str, Any]]:
    """What host_steps.py says of each step, in a process of its own; counts alone without `repeats`."""
    command = [sys.executable, "-m", f"{__package__}.host_steps", json.dumps([list(names), repeats, sample_s])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings()) as process:
        for line in process.stdout or ():
            yield json.loads(line)
    if process.returncode:
        raise RuntimeError(f"the process of {NAME} ended with {process.returncode}; it wrote why to stderr")


def run(args: argparse.Namespace) -> Report:
    """Add a case for each step. It makes no difference which device is asked for."""
    absent = load_peers(args.peers, PEERS, "cpu")[1]
    config = {"tiny": args.tiny, "computes": False}
    report = Report(NAME, TITLE, "cpu", config, absent, args.json)
    report.plan(host_steps.STEPS)
    for record in records(host_steps.STEPS, args.repeats, 1e-4 if args.tiny else 0.02):
        if "error" in record:
            report.failed[record["case"]] = record["error"]
            report.save()
        else:
            timing = Timing(tuple(record["samples"]), record["calls"])
            report.add(record["case"], {OURS: timing}, counts={OURS: record["counts"]})
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
