"""One optimizer step alone: Adam, SGD with and without momentum, on gradients that stay the same.

The parameters of 784-256-256-10, where two matrices hold nearly all of the arithmetic, and a hundred
of 64 by 64, where calls cost as much as arithmetic. PyTorch runs the fastest of its variants (default,
foreach, fused), which a note names. The parameters are compared after the first steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from .common import device_kind, make_parser, require_agreement, run_workload
from .peers import clock_for, load_peers
from .report import OURS, Report
from .timing import Contender, interleave
from .train_mlp import TORCH_VARIANTS

NAME = "optimizer_step"
PEERS = ("torch",)
Shapes = list[tuple[int, ...]]
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {"lr": 1e-4}),
    "SGD with momentum": ("SGD", {"lr": 1e-4, "momentum": 0.9}),
    "SGD": ("SGD", {"lr": 1e-4}),
}
CHECK_STEPS = 3


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=21)


def networks(tiny: bool) -> dict[str, Shapes]:
    """Name -> shapes of the parameters."""
    count, width, hidden = (4, 8, 16) if tiny else (100, 64, 256)
    sizes = [784, hidden, hidden, 10]
    layers: Shapes = []
    for before, after in pairwise(sizes):
        layers += [(after, before), (after,)]
    return {"-".join(map(str, sizes)): layers, f"{count} of {width}x{width}": [(width, width)] * count}


def make(lib: ModuleType, shapes: Shapes, optimizer: str, device: str, **settings: bool) -> tuple[Any, list[Any]]:
    """The optimizer and its parameters, with gradients, in a library with PyTorch's names."""
    rng = np.random.default_rng(6)
    params = []
    for shape in shapes:
        value, grad = (lib.tensor(rng.normal(size=shape).astype(np.float32), device=device) for _ in range(2))
        value.requires_grad_()
        value.grad = grad
        params.append(value)
    name, options = OPTIMIZERS[optimizer]
    return getattr(lib.optim, name)(params, **options, **settings), params


def measure(
    report: Report, present: dict[str, ModuleType], case: str, optimizer: str, shapes: Shapes, args: argparse.Namespace
) -> None:
    """Check, time and add one case, all variants in turns."""
    made = {OURS: (ag, make(ag, shapes, optimizer, args.device))}
    if torch := present.get("torch"):
        for variant, settings in TORCH_VARIANTS.items():
            made[variant] = torch, make(torch, shapes, optimizer, args.device, **settings)
    for _ in range(CHECK_STEPS):
        for _, (update, _) in made.values():
            update.step()
    require_agreement({name: params for name, (_, (_, params)) in made.items()}, 1e-5, case)
    contenders = [
        Contender(name, update.step, clock_for(lib, args.device)) for name, (lib, (update, _)) in made.items()
    ]
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s)
    ours, notes = timings.pop(OURS), []
    shown = {OURS: ours}
    if timings:
        fastest = min(timings, key=lambda name: timings[name].median)
        listed = ", ".join(f"{name} {timing.median * 1e6:.0f} us" for name, timing in timings.items())
        notes = [f"torch runs its {fastest} optimizer, the fastest of {listed}"]
        shown["torch"] = timings[fastest]
    report.add(case, shown, unit="us", notes=notes)


def run(args: argparse.Namespace) -> Report:
    """Run every optimizer on every network."""
    args.sample_s = 1e-3 if args.tiny else 0.02
    present, absent = load_peers(args.peers, PEERS, args.device)
    config = {"tiny": args.tiny, "optimizers": {name: options for name, (_, options) in OPTIMIZERS.items()}}
    title = f"Optimizer step, float32, {args.device}"
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    cases = {
        f"{optimizer}, {network}": (optimizer, shapes)
        for network, shapes in networks(args.tiny).items() for optimizer in OPTIMIZERS
    }  # fmt: skip
    report.plan(cases)
    for case, (optimizer, shapes) in cases.items():
        with report.attempt(case):
            measure(report, present, case, optimizer, shapes, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
