"""Programs of strangers: a step of each file in torch_programs, unchanged but for its imports.

A sample is a run from the same weights, of which the first steps are not timed; the libraries take turns. A step is
whatever the program makes of it: drawing a batch, several networks, an episode in an environment written in NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Sequence
from types import ModuleType

import autograd_gpu as ag

from .common import device_kind, list_of, make_parser, require_agreement, run_workload
from .peers import load_peers
from .program_runner import PROGRAMS, State, initial_state, run, start
from .report import OURS, Report
from .timing import PAUSE_S, Timing, garbage_collector, settle

NAME = "programs"
PEERS = ("torch",)
WARM = 3  # steps of each run that are not timed
MOST = 50  # steps of a sample
CHECKED = 4  # steps compared before timing
TINY = ["made", "hamiltonian"]  # with --tiny


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--programs", type=list_of(*PROGRAMS), help="comma-separated (default: all)")
    return parser


def seconds_per_step(module: ModuleType, name: str, state: State | None, steps: int, device: str) -> float:
    """The mean time of `steps` steps of a fresh run, after WARM others."""
    steps_of = start(name, module.__name__, WARM + steps, state, device)
    for _ in range(WARM):
        next(steps_of)
    if device != "cpu":
        module.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):  # each reads its numbers on the host, and so waits for the device
        next(steps_of)
    return (time.perf_counter() - begin) / steps


def steps_per_sample(first: Sequence[float], sample_s: float) -> int:
    """So many that a sample of the slowest library takes `sample_s`, within bounds."""
    return max(2, min(MOST, round(sample_s / max(first))))


def measure(report: Report, name: str, modules: dict[str, ModuleType], args: argparse.Namespace) -> None:
    """Check, time and add one program."""
    program, state = PROGRAMS[name], initial_state(name)
    with contextlib.redirect_stdout(io.StringIO()):  # what a program says at its end
        columns = {
            label: list(run(name, module.__name__, CHECKED, state, args.device).T) for label, module in modules.items()
        }
    require_agreement(columns, program.rtol, f"{program.title}: numbers of the first {CHECKED} steps")
    taken: dict[str, list[float]] = {label: [] for label in modules}
    with garbage_collector():
        first = [seconds_per_step(module, name, state, 2, args.device) for module in modules.values()]
        steps = steps_per_sample(first, args.sample_s)
        for _ in range(args.repeats):
            for label, module in modules.items():
                settle(PAUSE_S)
                taken[label].append(seconds_per_step(module, name, state, steps, args.device))
    report.add(program.title, {label: Timing(tuple(seconds), steps) for label, seconds in taken.items()})


def run_all(args: argparse.Namespace) -> Report:
    """Run the workload."""
    args.sample_s = 1e-3 if args.tiny else 0.15
    args.programs = args.programs or (TINY if args.tiny else list(PROGRAMS))
    present, absent = load_peers(args.peers, PEERS, args.device)
    config = {"programs": args.programs, "warm": WARM, "tiny": args.tiny}
    title = f"Programs written for PyTorch, a step, {args.device}"
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    report.plan(PROGRAMS[name].title for name in args.programs)
    for name in args.programs:
        with report.attempt(PROGRAMS[name].title):
            measure(report, name, {OURS: ag, **present}, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run_all, argv)


if __name__ == "__main__":
    main()
