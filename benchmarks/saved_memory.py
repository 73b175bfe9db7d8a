"""What is saved for backward: bytes between forward and backward, step time and gradient error, behind each hook.

Twenty linear layers of 1024 with Tanh or ReLU behind each but the last, default weights, batch 4096, and the mean
square of the result. PyTorch runs its own `save_on_cpu` and `checkpoint_sequential`, and pairs of hooks written by
hand as its documentation shows them, which pack what two nodes save twice. Errors are those of the weight gradients,
||g - g0|| / ||g0|| by Frobenius norms, of the worst layer, against the same library without hooks. On CUDA our steps
without hooks and with offloading run as CUDA graphs, too: their bytes, held and peak, are those of the graph's pool.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from .common import device_kind, list_of, make_parser, require_agreement, run_workload, to_numpy
from .counting import held_bytes, peak_bytes
from .graphed import NEED_CUDA, WARMUP
from .models import make_weights, sequential
from .peers import clock_for, load_peers
from .report import GRAPH, OURS, Report
from .timing import Contender, Timing, interleave

NAME = "saved_memory"
PEERS = ("torch",)
SEGMENTS = 5  # of checkpoint_sequential: about the root of the number of layers
WITHOUT, CHECKPOINT = "no hooks", "checkpoint"
AS_GRAPHS = (WITHOUT, "offload")  # on CUDA
MIB = 1 << 20
SLAB = 512 * MIB  # holds the activations, 16 MiB each

Context = Callable[[], AbstractContextManager[Any]]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--activations", type=list_of("Tanh", "ReLU"), default=["Tanh", "ReLU"])
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4096)
    return parser


def our_hooks(lib: ModuleType, device: str, min_bytes: int) -> dict[str, Context]:
    """Name -> hook, of tensors from `min_bytes` on; a checkpoint is none."""
    quantize = lib.hooks.quantize
    hooks: dict[str, Context] = {
        WITHOUT: nullcontext,
        "save_on_cpu": lib.autograd.graph.save_on_cpu,
        "float16": lambda: quantize("float16"),
        "bfloat16": lambda: quantize("bfloat16"),
        "float8_e4m3fn": lambda: quantize("float8_e4m3fn"),
        "float8_e4m3fn by row": lambda: quantize("float8_e4m3fn", "row"),
        "float8_e5m2": lambda: quantize("float8_e5m2"),
        CHECKPOINT: nullcontext,
    }
    if device != "cpu":
        hooks["offload"] = lambda: lib.hooks.offload(min_bytes=min_bytes, slab_bytes=SLAB)
        hooks["float8_e4m3fn, offload"] = lambda: lib.hooks.compose(quantize("float8_e4m3fn"), hooks["offload"]())
    return hooks


def torch_hooks(torch: ModuleType, device: str) -> dict[str, Context]:
    """The same with PyTorch's means."""
    save_on_cpu = torch.autograd.graph.save_on_cpu

    def by_hand(name: str, by_row: bool = False) -> Context:
        return lambda: torch.autograd.graph.saved_tensors_hooks(*_pair(torch, getattr(torch, name), by_row))

    return {
        WITHOUT: nullcontext,
        "save_on_cpu": save_on_cpu,
        **{name: by_hand(name) for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")},
        "float8_e4m3fn by row": by_hand("float8_e4m3fn", by_row=True),
        CHECKPOINT: nullcontext,
        "offload": lambda: save_on_cpu(pin_memory=device != "cpu"),
    }


def _pair(torch: ModuleType, dtype: Any, by_row: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Pack and unpack, for PyTorch."""
    scaled, largest = dtype.itemsize == 1, torch.finfo(dtype).max

    def pack(tensor: Any) -> Any:
        if isinstance(tensor, torch.nn.Parameter) or not tensor.is_floating_point():
            return tensor
        if not scaled:
            return tensor.to(dtype), None
        scale = (tensor.abs().amax(-1, keepdim=True) if by_row else tensor.abs().amax()).clamp(min=1e-30) / largest
        return (tensor / scale).to(dtype), scale

    def unpack(packed: Any) -> Any:
        if isinstance(packed, torch.Tensor):
            return packed
        codes, scale = packed
        return codes.float() if scale is None else codes.float() * scale

    return pack, unpack


class Run:
    """One network in one library, behind one hook."""

    def __init__(self, lib: ModuleType, net: Any, x: Any, name: str, context: Context) -> None:
        self.lib, self.net, self.x, self.name, self.context = lib, net, x, name, context

    def loss(self) -> Any:
        """The forward pass."""
        with self.context():
            if self.name == CHECKPOINT:
                checkpoint = self.lib.utils.checkpoint.checkpoint_sequential
                out = checkpoint(self.net, SEGMENTS, self.x, use_reentrant=False)
            else:
                out = self.net(self.x)
            return self.loss_of(out)

    def loss_of(self, out: Any) -> Any:
        """The mean square of what the network says."""
        return (out * out).mean()

    def step(self) -> None:
        """Forward and backward."""
        for parameter in self.net.parameters():
            parameter.grad = None
        self.loss().backward()

    def gradients(self) -> list[np.ndarray]:
        """Of the weights."""
        self.step()
        return [to_numpy(p.grad) for p in self.net.parameters() if p.ndim == 2]


class CapturedRun(Run):
    """A run of ours whose steps are replays of a CUDA graph; `refused` says why not, if the library refuses."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.lib, run.net, run.x, run.name, run.context)
        self.graphed = ag.cuda.make_graphed_step(run.step, warmup=WARMUP)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(WARMUP + 1):
                self.step()
        self.refused = "" if self.graphed.graphs else " ".join([str(warning.message) for warning in said])

    def step(self) -> None:
        self.graphed()

    @property
    def bytes(self) -> int:
        """Of the graph's pool."""
        return int(self.graphed._pool.memory.total_bytes())


def captured(runs: dict[str, Run]) -> tuple[dict[str, Run], dict[str, list[str]]]:
    """Runs as CUDA graphs by name, and for hooks that the library refuses in a graph notes that say so."""
    made: dict[str, Run] = {}
    notes: dict[str, list[str]] = {}
    for name in AS_GRAPHS:
        run = CapturedRun(runs[name])
        if run.refused:
            notes[name] = [f"as a CUDA graph refused: {run.refused}"]
        else:
            made[f"{name}, {GRAPH}"] = run
    return made, notes


def worst(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The relative error of the worst gradient."""
    return max(
        float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in zip(actual, expected, strict=True)
    )


def counts_of(run: Run, expected: list[np.ndarray], device: str) -> dict[str, Any]:
    """The error, and of ours the bytes."""
    counts: dict[str, Any] = {"error": float(f"{worst(run.gradients(), expected):.2g}")}
    if isinstance(run, CapturedRun):
        counts["MiB held"] = counts["peak MiB"] = float(f"{run.bytes / MIB:.4g}")
    elif run.lib is ag:
        run.step()
        counts["MiB held"] = float(f"{held_bytes(device, run.loss) / MIB:.4g}")
        for parameter in run.net.parameters():
            parameter.grad = None
        counts["peak MiB"] = float(f"{peak_bytes(device, run.step) / MIB:.4g}")
    return counts


def measure(report: Report, present: dict[str, ModuleType], activation: str, args: argparse.Namespace) -> None:
    """Every hook on one network."""
    weights = make_weights([args.width] * (args.layers + 1))
    x = np.random.default_rng(1).normal(size=(args.batch, args.width)).astype(np.float32)
    hooks = {OURS: our_hooks(ag, args.device, 0 if args.tiny else 1 << 16)}
    if torch := present.get("torch"):
        hooks["torch"] = torch_hooks(torch, args.device)
    runs: dict[str, dict[str, Run]] = {}
    for library, by_name in hooks.items():
        lib = ag if library == OURS else present[library]
        net, inputs = sequential(lib, weights, activation, args.device), lib.tensor(x, device=args.device)
        runs[library] = {name: Run(lib, net, inputs, name, by_name[name]) for name in hooks[OURS] if name in by_name}
    expected = {library: by_name[WITHOUT].gradients() for library, by_name in runs.items()}
    # rounding moves a number near zero across it, and that changes ReLU's derivative from 0 to 1
    require_agreement(expected, 1e-2 if activation == "ReLU" else 1e-3, f"gradients, {activation}")
    notes: dict[str, list[str]] = {}
    if device_kind(args.device) == "cuda":
        graphs, notes = captured(runs[OURS])
        runs[OURS] |= graphs
    counts = {
        library: {name: counts_of(run, expected[library], args.device) for name, run in by_name.items()}
        for library, by_name in runs.items()
    }
    contenders = [
        Contender(f"{library} {name}", run.step, clock_for(run.lib, args.device))
        for name in runs[OURS] for library, by_name in runs.items() if (run := by_name.get(name)) is not None
    ]
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s)
    add_cases(report, activation, timings, counts, notes)


def add_cases(
    report: Report, activation: str, timings: dict[str, Timing], counts: dict[str, dict[str, dict[str, Any]]],
    further: dict[str, list[str]],
) -> None:
    """A case for each hook, and its step time relative to that without."""
    for name in counts[OURS]:
        taken = {library: timings[f"{library} {name}"] for library in counts if name in counts[library]}
        held = counts[OURS][name]["MiB held"], counts[OURS][WITHOUT]["MiB held"]
        notes = [f"{held[0] / held[1]:.3f} of the bytes without hooks, error {counts[OURS][name]['error']:.1e}"]
        notes += further.get(name, [])
        named = {library: counts[library][name] for library in taken}
        report.add(f"{activation}, {name}", taken, counts=named, notes=notes)
        if name != WITHOUT:
            report.summary[f"{activation}, {name}: time / that without hooks"] = {
                library: round(timings[f"{library} {name}"].median / timings[f"{library} {WITHOUT}"].median, 3)
                for library in taken
            }


def run(args: argparse.Namespace) -> Report:
    """Every activation."""
    if args.tiny:
        args.layers, args.width, args.batch = 3, 32, 256
    args.sample_s = 1e-3 if args.tiny else 0.02
    present, absent = load_peers(args.peers, PEERS, args.device)
    graphs = [f"{WITHOUT}, {GRAPH}"] if device_kind(args.device) == "cuda" else []
    if not graphs:
        absent[GRAPH] = NEED_CUDA[GRAPH]
    config = {"layers": args.layers, "width": args.width, "batch": args.batch, "tiny": args.tiny}
    title = f"Saved for backward, {args.layers} layers of {args.width}, batch {args.batch}, ms a step, {args.device}"
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    hooks = our_hooks(ag, args.device, 0)
    cases = {activation: [f"{activation}, {hook}" for hook in (*hooks, *graphs)] for activation in args.activations}
    report.plan(case for group in cases.values() for case in group)
    for activation, group in cases.items():
        with report.attempt(*group):
            measure(report, present, activation, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
