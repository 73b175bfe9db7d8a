"""How long the first calls of compiled steps take, each sample in a process of its own.

Steps: an MLP step of batch 8 and the step of a physics-informed network, both with Adam. A sample is what calls take
beyond as many calls in the end: the first three, which are recorded, or all until native code runs. Here that is
compiled at the first replay; by default at the 64th, or earlier for large arrays. The folder of machine code is empty,
or filled by the process before. Beside JAX jit, whose first call compiles. The import of the library is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import autograd_gpu as ag
from autograd_gpu.backend.formulas.native import switch

from . import models, pinn, train_mlp
from .common import make_parser, run_workload
from .peers import load_peers
from .replayed import compiling_at_once, replayed
from .report import OURS, Report
from .timing import Call, Timing, host_clock

NAME = "compile_time"
PEERS = ("jax",)
FIRST = 3  # calls, which are recorded
READY = 4  # calls, the last of which is the first replay and compiles native code
LATER = 20  # calls by which the time of a call without compilation is known
SPANS = {"first three calls": FIRST, "until native code runs": READY}
FOLDERS = ("empty cache", "second process")
Sample = dict[str, Any]


def mlp(lib: Any, tiny: bool) -> Call:
    """A step of the workload `train_mlp`, batch 8, Adam."""
    hidden = 16 if tiny else 256
    weights = models.make_weights([784, hidden, hidden, 10])
    if lib is not ag:
        return train_mlp.jax_step(lib, weights, 8, "Adam", "cpu")
    return train_mlp.in_turn(ag, replayed(train_mlp.step_on(ag, weights, "Adam", "cpu")), 8, "cpu")


def residual(lib: Any, tiny: bool) -> Call:
    """A step of the workload `pinn`."""
    hidden, points = (8, 16) if tiny else (64, 256)
    case = models.make_weights([2, hidden, hidden, 1]), points, "cpu"
    return pinn.eager_step(ag, *case, made=replayed) if lib is ag else pinn.jax_step(lib, *case)


STEPS: dict[str, Callable[[Any, bool], Call]] = {"MLP": mlp, "PINN": residual}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__)


# ---- in a process of its own -----------------------------------------------------------------


def sample(step: str, peer: str, tiny: bool) -> Sample:
    """Seconds by span of calls, and in `later` those of a call in the end."""
    lib = load_peers([peer], PEERS, "cpu")[0][peer] if peer else ag
    with compiling_at_once():
        call = STEPS[step](lib, tiny)
        each = [clock(lib, call, 1) for _ in range(READY)]
        later = clock(lib, call, LATER) / LATER
    return {name: sum(each[:count]) - count * later for name, count in SPANS.items()} | {"later": later}


def clock(lib: Any, call: Call, count: int) -> float:
    """Seconds until the results of `count` calls are there."""
    return host_clock(call if lib is ag else lambda: call().block_until_ready(), count)


# ---- measuring -------------------------------------------------------------------------------


def asked(folder: str, *words: Any) -> Sample:
    """A sample of a new process, whose machine code is kept in `folder`, and the number of files that it adds there."""
    before, place = len(os.listdir(folder)), {"AUTOGRAD_GPU_CACHE_DIR": folder}
    command = [sys.executable, "-m", f"{__package__}.{NAME}", "--sample", json.dumps(words)]
    done = subprocess.run(command, env={**os.environ, **place}, stdout=subprocess.PIPE, text=True, check=True,
                          cwd=Path(__file__).parent.parent)  # fmt: skip
    seconds: Sample = json.loads(done.stdout)
    return seconds | {"compiled": len(os.listdir(folder)) - before}


def samples_of(step: str, peers: Sequence[str], tiny: bool) -> dict[str, dict[str, Sample]]:
    """By folder, and then by contender: a sample of each."""
    with tempfile.TemporaryDirectory() as folder:
        ours = {name: {OURS: asked(folder, step, "", tiny)} for name in FOLDERS}
        for peer in peers:
            ours[FOLDERS[0]][peer] = asked(folder, step, peer, tiny)
    return ours


def measure(report: Report, step: str, peers: Sequence[str], args: argparse.Namespace) -> None:
    """Add the cases of one step. With --tiny one sample stands for all."""
    taken = [samples_of(step, peers, args.tiny) for _ in range(1 if args.tiny else args.repeats)]
    taken *= args.repeats // len(taken)
    for folder, (span, count) in ((folder, item) for folder in FOLDERS for item in SPANS.items()):
        timings = {name: Timing(tuple([each[folder][name][span] for each in taken])) for name in taken[0][folder]}
        files = max(each[folder][OURS]["compiled"] for each in taken)
        report.add(label_of(step, span, folder), timings, counts={OURS: {"calls": count, "compiled": files}})


def label_of(step: str, span: str, folder: str) -> str:
    """The name of a case."""
    return f"{step}, {span}, {folder}"


def run(args: argparse.Namespace) -> Report:
    """Measure both steps."""
    if args.device != "cpu":
        raise SystemExit("compile_time measures machine code for the CPU: run it with --device cpu")
    present, absent = load_peers(args.peers, PEERS, args.device)
    config = {"tiny": args.tiny, "native code": switch.state()}
    report = Report(NAME, "First calls of compiled steps, cpu", "cpu", config, absent, args.json)
    report.plan(label_of(step, span, folder) for step in STEPS for folder in FOLDERS for span in SPANS)
    for step in STEPS:
        with report.attempt(*[label_of(step, span, folder) for folder in FOLDERS for span in SPANS]):
            measure(report, step, list(present), args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        print(json.dumps(sample(*json.loads(sys.argv[2]))))
    else:
        main()
