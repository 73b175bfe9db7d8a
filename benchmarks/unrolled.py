"""A small model trained by plain SGD with the whole history kept in the graph.

Every step asks for the gradient of the newest weights only, with create_graph, so that step n's
weights hang on all n steps before. The time per 100 steps must not grow with the history: that is
what topological numbers are for, discovery never walks below the newest weights.

The same code runs in autograd_gpu and PyTorch. A repetition is one whole unrolled run of each, in
turns, and its history is freed before the next begins.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import models
from .common import device_kind, make_parser, require_agreement, run_workload
from .peers import load_peers
from .plots import COLOURS, INK, new_figure, save
from .report import OURS, Report
from .timing import PAUSE_S, Timing, garbage_collector, settle

NAME = "unrolled"
PEERS = ("torch",)
BLOCK = 100  # steps per timing
SIZES = (8, 16, 1)
ROWS = 32
LEARNING_RATE = 0.05


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--steps", type=int, default=2_000, help="steps per run, a multiple of 200")
    return parser


class UnrolledRun:
    """One training run in one library; `advance` makes 100 more steps."""

    def __init__(self, lib: ModuleType, device: str):
        rng = np.random.default_rng(2)
        points = rng.normal(size=(ROWS, SIZES[0])).astype(np.float32)
        self.lib = lib
        self.x = lib.tensor(points, device=device)
        self.target = lib.tensor(np.sin(points.sum(1, keepdims=True)), device=device)
        self.weights = [
            lib.tensor(np.ascontiguousarray(array), device=device, requires_grad=True)
            for matrix, bias in models.make_weights(SIZES)
            for array in (matrix.T, bias)
        ]

    def loss(self) -> Any:
        """Mean squared error of a tanh network with the newest weights."""
        w1, b1, w2, b2 = self.weights
        hidden = (self.x @ w1 + b1).tanh()
        return ((hidden @ w2 + b2 - self.target) ** 2).mean()

    def advance(self) -> None:
        """BLOCK steps of SGD; nothing is detached."""
        for _ in range(BLOCK):
            gradients = self.lib.autograd.grad(self.loss(), self.weights, create_graph=True)
            self.weights = [w - LEARNING_RATE * g for w, g in zip(self.weights, gradients, strict=True)]


def synchronize(lib: ModuleType, device: str) -> None:
    """Wait for the device: a block of steps is host-bound, so the host's clock is read."""
    if device != "cpu":
        lib.cuda.synchronize()


def time_blocks(lib: ModuleType, steps: int, device: str) -> tuple[list[float], list[Any]]:
    """Seconds of each block of one run, and its last weights, cut from their history."""
    run = UnrolledRun(lib, device)
    seconds = []
    for _ in range(steps // BLOCK):
        synchronize(lib, device)
        start = time.perf_counter()
        run.advance()
        synchronize(lib, device)
        seconds.append(time.perf_counter() - start)
    return seconds, [w.detach() for w in run.weights]


def time_runs(
    libraries: dict[str, ModuleType], args: argparse.Namespace, collector: bool
) -> dict[str, np.ndarray]:
    """Name -> seconds [repeats, blocks], the libraries taking turns."""
    taken: dict[str, list[list[float]]] = {name: [] for name in libraries}
    with garbage_collector(collector):
        last = {name: time_blocks(lib, 2 * BLOCK, args.device)[1] for name, lib in libraries.items()}
        require_agreement(last, 1e-3, f"weights after {2 * BLOCK} steps")
        for _ in range(args.repeats):
            for name, lib in libraries.items():
                settle(PAUSE_S)
                taken[name].append(time_blocks(lib, args.steps, args.device)[0])
    return {name: np.array(seconds) for name, seconds in taken.items()}


def label_of(block: int, suffix: str) -> str:
    """The name of a case."""
    return f"steps {block * BLOCK + 1} to {(block + 1) * BLOCK}{suffix}"


def add_cases(report: Report, seconds: dict[str, np.ndarray], suffix: str) -> dict[str, float]:
    """Add the blocks that end at step 200 and at the last step; answers {library: their ratio}."""
    last = seconds[OURS].shape[1] - 1
    for block in (1, last):
        timings = {name: Timing(tuple(taken[:, block].tolist())) for name, taken in seconds.items()}
        report.add(label_of(block, suffix), timings)
    medians = {name: np.median(taken, axis=0) for name, taken in seconds.items()}
    return {name: float(times[last] / times[1]) for name, times in medians.items()}


def run(args: argparse.Namespace) -> Report:
    """Run the workload with Python's collector on and off. Note [Garbage collector] in timing.py."""
    if args.tiny:
        args.steps = 4 * BLOCK
    if args.steps % BLOCK or args.steps < 2 * BLOCK:
        sys.exit(f"--steps must be a multiple of {BLOCK} and at least {2 * BLOCK}, got {args.steps}")
    present, absent = load_peers(args.peers, PEERS, args.device)
    libraries = {OURS: ag, **present}
    title = f"Unrolled loop, {args.steps} steps with their whole history, ms per {BLOCK} steps, {args.device}"
    config = {"steps": args.steps, "block": BLOCK, "sizes": list(SIZES), "rows": ROWS, "tiny": args.tiny}
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    keys = {True: "collector on", False: "collector off"}
    report.plan(label_of(block, f", {key}") for key in keys.values() for block in (1, args.steps // BLOCK - 1))
    for collector, key in keys.items():
        seconds = time_runs(libraries, args, collector)
        growth = add_cases(report, seconds, f", {key}")
        report.summary[f"step {args.steps} / step {2 * BLOCK}, {key}"] = {
            name: round(ratio, 3) for name, ratio in growth.items()
        }
        report.series[f"seconds per block, {key}"] = {
            name: np.median(taken, axis=0).tolist() for name, taken in seconds.items()
        }
    return report


def plot(report: Report, path: str | Path) -> None:
    """Time per block over the run, a line per library."""
    figure, axes = new_figure(2)
    for ax, key in zip(axes, ("collector on", "collector off"), strict=True):
        for name, seconds in report.series[f"seconds per block, {key}"].items():
            steps = [BLOCK * (i + 1) for i in range(len(seconds))]
            ax.plot(steps, [s * 1e3 for s in seconds], color=COLOURS[name], label=name, marker="o", ms=3)
        ax.margins(y=0.15)
        ax.set_ylim(bottom=0)
        ax.set_title(key, fontsize=10, color=INK)
        ax.set_xlabel("step", color=INK)
        ax.set_ylabel(f"ms per {BLOCK} steps", color=INK)
        ax.legend(frameon=False, fontsize=9)
    figure.suptitle(report.title, fontsize=11, color=INK)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv, plot)


if __name__ == "__main__":
    main()
