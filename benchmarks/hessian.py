"""Second derivatives of a network with respect to its input, as physics-informed networks need them.

Ours is `vmap(hessian(model))`, `laplacian`, `hessian_diagonal` and `hvp` with the method "auto"; further contenders
are its other methods, a loop over gradients, and "auto" and that loop by ag.compile, "auto" with native code and
without. PyTorch runs the same loop, torch.func vmap(jacfwd(jacrev(model))), JAX jit(vmap(hessian(model))). On CUDA our
"auto", its compiled program and PyTorch's loop run as CUDA graphs, too, and its torch.func through torch.compile, where
the activation is the first. hessian_calls.py has the code.

Parts: "hessian" is the Hessian and the prediction, with weights that require grad; "backward" then calls backward on
(hessian**2).mean() + (pred**2).mean(); "laplacian" and "laplacian-backward" likewise, "diagonal" and "hvp" without. All
activations run the first two, the first activation runs the others, and the sweeps over widths, numbers of inputs,
depths and batches, and over small networks, where calls and passes take longer than products.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import numpy as np

import autograd_gpu as ag

from . import counting, models
from .common import device_kind, list_of, make_parser, require_agreement, run_workload
from .graphed import NEED_CUDA, WARMUP, results_of
from .hessian_calls import METHODS, Problem, calls_for
from .peers import clock_for, load_peers
from .replayed import absent_on, compiling_at_once
from .report import COMPILED, LOOP, REPLAYS, TORCH_GRAPH, Report
from .timing import Call, Contender, interleave

NAME = "hessian"
PEERS = ("torch", "torch.func", "jax")
ACTIVATIONS = ("Tanh", "ReLU", "SiLU", "GELU")
PARTS = {  # name -> (label, quantity of hessian_calls, with backward)
    "hessian": ("Hessian", "hessian", False),
    "backward": ("Hessian with backward", "hessian", True),
    "laplacian": ("Laplacian", "laplacian", False),
    "laplacian-backward": ("Laplacian with backward", "laplacian", True),
    "diagonal": ("diagonal", "diagonal", False),
    "hvp": ("hvp", "hvp", False),
}
FOR_ALL = ("hessian", "backward")  # parts that every activation runs
INPUTS, OUTPUTS = 2, 3  # (x, y) -> (u, v, p)
WIDTHS = (64, 128, 256, 512, 1024)
NUMBERS_OF_INPUTS, WIDTH_THERE, NUMBERS_OF_OUTPUTS = (2, 3, 5, 10), 256, (1, 3)
DEPTHS, BATCHES = (2, 4, 8, 16), (125, 500, 2_000, 8_000)  # of networks of width WIDTH_THERE
SMALL_WIDTHS, SMALL_LAYERS, SMALL_BATCH = (32, 64, 128, 256), 4, 1_000
BATCH = {"cpu": 2_000, "cuda": 10_000}
TOLERANCE = {"fp32": 1e-4, "tf32": 3e-2}
PRECISION = {"fp32": "highest", "tf32": "high"}
JAX_PRECISION = {"fp32": "float32", "tf32": "tensorfloat32"}


class Case(NamedTuple):
    """A part of the workload: how it is called, its network, and what runs beside our "auto"."""

    label: str
    sizes: list[int]
    activation: str
    part: str
    precision: str
    methods: list[str]
    replays: bool  # compiled calls, too
    batch: int | None = None  # that of the command line by default


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--batch", type=int, help="rows of x (default: 2000 on the CPU, 10000 on CUDA)")
    parser.add_argument("--hidden", type=int, default=512, help="width of the hidden layers, but for the sweeps")
    parser.add_argument("--layers", type=int, default=6, help="number of hidden layers")
    lists = {"methods": METHODS, "activations": ACTIVATIONS, "parts": tuple(PARTS), "sweeps": tuple(SWEEPS)}
    for name, values in lists.items():
        optional = name in ("methods", "sweeps")
        help = f"comma-separated: {', '.join(values)}{', or none' if optional else ''} (default: all)"
        parser.add_argument(f"--{name}", type=list_of(*values, or_none=optional), default=list(values), help=help)
    help = "comma-separated: fp32, tf32 (default: fp32 on the CPU, both on CUDA)"
    parser.add_argument("--precisions", type=list_of(*PRECISION), help=help)
    return parser


@contextmanager
def matmul_precision(precision: str, present: dict[str, ModuleType], device: str) -> Iterator[None]:
    """Let every library use TF32, or none; on the CPU there is nothing to choose."""
    if device == "cpu":
        yield
        return
    libraries = {module.__name__: module for module in (ag, *present.values())}
    set_precision(libraries, precision)
    try:
        yield
    finally:
        set_precision(libraries, "fp32")


def set_precision(libraries: dict[str, ModuleType], precision: str) -> None:
    """Let float32 products run as "fp32" or "tf32" in each library."""
    for name, lib in libraries.items():
        if name == "jax":
            lib.config.update("jax_default_matmul_precision", JAX_PRECISION[precision])
        else:
            lib.set_float32_matmul_precision(PRECISION[precision])


# ---- measuring ------------------------------------------------------------------------------


def count(module: ModuleType, call: Call, problem: Problem) -> dict[str, int]:
    """Counts of one call; JAX compiles its products away from view and has none."""
    batch, hidden = len(problem.x), problem.weights[0][0].shape[0]
    if module.__name__ == "jax":
        return {}
    if module is not ag:
        products, calls = counting.count_torch(module, call)
        return {"hidden products": counting.hidden_products(products, batch, hidden), "ATen calls": calls}
    products, launches = counting.count_ours(ag, call)
    return {
        "hidden products": counting.hidden_products(products, batch, hidden),
        "peak bytes": counting.peak_bytes(problem.device, call),
    } | ({} if problem.device == "cpu" else {"launches": launches})


def measure(case: Case, args: argparse.Namespace, present: dict[str, ModuleType], report: Report) -> None:
    """Check that all agree, count, time, and add the case."""
    _, quantity, backward = PARTS[case.part]
    shape = case.batch or args.batch, case.sizes[0]
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    problem = Problem(models.make_weights(case.sizes), x, case.activation, quantity, backward, args.device)
    with matmul_precision(case.precision, present, args.device):
        graphs = device_kind(args.device) == "cuda" and case.activation == args.activations[0] and quantity != "hvp"
        calls = calls_for(problem, case.methods, present, graphs, case.replays)
        results, notes = results_of(calls, lambda name, call: warmed(name, call)())
        modules = {name: present.get("torch" if name in (TORCH_GRAPH, COMPILED) else name, ag) for name in calls}
        require_agreement(results, TOLERANCE[case.precision], case.label)
        counts = {
            name: count(modules[name], call, problem)
            for name, call in calls.items() if name not in (*NEED_CUDA, *REPLAYS)
        }  # fmt: skip
        contenders = [Contender(name, call, clock_for(modules[name], args.device)) for name, call in calls.items()]
        quick = {"sample_s": 1e-4, "pause_s": 0.0} if args.tiny else {}
        report.add(case.label, interleave(contenders, args.repeats, **quick), counts=counts, notes=notes)


def warmed(name: str, call: Call) -> Call:
    """The call, after those that come before a graph or a replay."""
    for _ in range(WARMUP if name in (*NEED_CUDA, *REPLAYS) else 0):
        call()
    return call


# ---- cases ----------------------------------------------------------------------------------


def headline(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian and training on it, for every activation and precision, by every method."""
    sizes = [INPUTS, *[args.hidden] * args.layers, OUTPUTS]
    for activation in args.activations:
        for part in [part for part in args.parts if part in FOR_ALL]:
            for precision in args.precisions:
                label = f"{activation}, {PARTS[part][0]}{suffix(args, precision)}"
                yield Case(label, sizes, activation, part, precision, args.methods, LOOP in args.methods)


def further_parts(args: argparse.Namespace) -> Iterator[Case]:
    """The other parts, for one activation; of our methods those that differ."""
    sizes = [INPUTS, *[args.hidden] * args.layers, OUTPUTS]
    for part in [part for part in args.parts if part not in FOR_ALL]:
        methods = [method for method in args.methods if part != "hvp" or method == LOOP]
        for precision in args.precisions:
            label = f"{args.activations[0]}, {PARTS[part][0]}{suffix(args, precision)}"
            yield Case(label, sizes, args.activations[0], part, precision, methods, LOOP in methods)


def over_widths(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian over widths of the hidden layers."""
    activation, precision = args.activations[0], args.precisions[0]
    for width in args.widths:
        label = f"{activation}, width {width}{suffix(args, precision)}"
        yield Case(label, [INPUTS, *[width] * args.layers, OUTPUTS], activation, "hessian", precision, [], False)


def over_inputs(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian over numbers of inputs and outputs, by which "auto" chooses."""
    activation, precision = args.activations[0], args.precisions[0]
    methods = [method for method in args.methods if method in ("push", "pull")]
    for inputs in args.numbers_of_inputs:
        for outputs in NUMBERS_OF_OUTPUTS:
            label = f"{activation}, inputs {inputs}, outputs {outputs}{suffix(args, precision)}"
            sizes = [inputs, *[args.width_there] * args.layers, outputs]
            yield Case(label, sizes, activation, "hessian", precision, methods, False)


def over_depths(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian over numbers of hidden layers."""
    activation, precision = args.activations[0], args.precisions[0]
    for depth in args.depths:
        label = f"{activation}, depth {depth}{suffix(args, precision)}"
        yield Case(label, [INPUTS, *[args.width_there] * depth, OUTPUTS], activation, "hessian", precision, [], False)


def over_batches(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian over numbers of rows of x."""
    activation, precision = args.activations[0], args.precisions[0]
    sizes = [INPUTS, *[args.width_there] * args.layers, OUTPUTS]
    for batch in args.batches:
        label = f"{activation}, batch {batch}{suffix(args, precision)}"
        yield Case(label, sizes, activation, "hessian", precision, [], False, batch)


def over_small_networks(args: argparse.Namespace) -> Iterator[Case]:
    """The Hessian of one output, and training on the Laplacian, over the widths of physics-informed networks."""
    activation, precision = args.activations[0], args.precisions[0]
    for part in ("hessian", "laplacian-backward"):
        methods = [method for method in args.methods if method in ("push", "pull")] if part == "hessian" else []
        for width in args.small_widths:
            label = f"{activation}, {PARTS[part][0]}, small width {width}{suffix(args, precision)}"
            sizes = [INPUTS, *[width] * SMALL_LAYERS, 1]
            yield Case(label, sizes, activation, part, precision, methods, True, args.small_batch)


SWEEPS = {
    "widths": over_widths, "inputs": over_inputs, "depths": over_depths, "batches": over_batches,
    "small networks": over_small_networks,
}  # fmt: skip


def suffix(args: argparse.Namespace, precision: str) -> str:
    """What a label says of the precision; on the CPU there is one."""
    return "" if device_kind(args.device) == "cpu" else f", {precision.upper()}"


def run(args: argparse.Namespace) -> Report:
    """Run every case."""
    kind = device_kind(args.device)
    args.batch = args.batch or BATCH[kind]
    args.precisions = args.precisions or (["fp32", "tf32"] if kind == "cuda" else ["fp32"])
    args.widths, args.numbers_of_inputs, args.width_there = WIDTHS, NUMBERS_OF_INPUTS, WIDTH_THERE
    args.depths, args.batches = DEPTHS, BATCHES
    args.small_widths, args.small_batch = SMALL_WIDTHS, SMALL_BATCH
    if args.tiny:
        args.batch, args.hidden = 24, 8
        args.widths, args.numbers_of_inputs, args.width_there = (8, 16), (2, 10), 8
        args.depths, args.batches = (1, 2), (4, 12)
        args.small_widths, args.small_batch = (8,), 24
    present, absent = load_peers(args.peers, PEERS, args.device)
    absent |= absent_on(args.device)
    network = f"{INPUTS} -> {args.layers} x {args.hidden} -> {OUTPUTS}"
    title = f"Second derivatives, {network}, batch {args.batch}, {args.device}"
    swept = {name: list(sweep(args)) for name, sweep in SWEEPS.items() if name in args.sweeps}
    config = {"batch": args.batch, "hidden": args.hidden, "layers": args.layers, "width of inputs": args.width_there,
              "small": {"layers": SMALL_LAYERS, "batch": args.small_batch},
              "sweeps": {name: [case.label for case in group] for name, group in swept.items()}, "tiny": args.tiny}
    report = Report(NAME, title, kind, config, absent, args.json)
    chosen = [*headline(args), *further_parts(args), *[case for group in swept.values() for case in group]]
    report.plan(case.label for case in chosen)
    for case in chosen:
        with report.attempt(case.label), compiling_at_once(not args.tiny):
            measure(case, args, present, report)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
