"""Batched Hessian of a network with respect to its input, as physics-informed networks need it.

The loop, the same code for autograd_gpu and PyTorch:
1. pred = model(x)
2. for each output o: row = grad(pred[:, o], x, create_graph=True)
3. for each input component i: hessian[:, o, i] = grad(row[:, i], x)
torch.func runs vmap(jacfwd(jacrev(model))), JAX jit(vmap(hessian(model))).

"no backward" is the Hessian and the prediction alone, with weights that require grad; "with
backward" then calls backward on (hessian**2).mean() + (pred**2).mean().
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import counting, models
from .common import device_kind, list_of, make_parser, require_agreement, run_workload
from .peers import clock_for, jax_device, load_peers
from .report import OURS, Report
from .timing import Call, Contender, interleave

NAME = "hessian"
PEERS = ("torch", "torch.func", "jax")
INPUTS, OUTPUTS = 2, 3  # (x, y) -> (u, v, p)
BATCH = {"cpu": 2_000, "cuda": 10_000}
TOLERANCE = {"fp32": 1e-4, "tf32": 3e-2}
PRECISION = {"fp32": "highest", "tf32": "high"}
JAX_PRECISION = {"fp32": "float32", "tf32": "tensorfloat32"}


@dataclass(frozen=True)
class Problem:
    """One case: network, points and what is asked for."""

    weights: models.Weights
    x: np.ndarray  # (batch, 2)
    activation: str
    backward: bool
    device: str


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--batch", type=int, help="rows of x (default: 2000 on the CPU, 10000 on CUDA)")
    parser.add_argument("--hidden", type=int, default=512, help="width of the hidden layers")
    parser.add_argument("--layers", type=int, default=6, help="number of hidden layers")
    for name, values in (("activations", ("Tanh", "ReLU")), ("parts", ("hessian", "backward"))):
        help = f"comma-separated: {', '.join(values)} (default: both)"
        parser.add_argument(f"--{name}", type=list_of(*values), default=list(values), help=help)
    help = "comma-separated: fp32, tf32 (default: fp32 on the CPU, both on CUDA)"
    parser.add_argument("--precisions", type=list_of(*PRECISION), help=help)
    return parser


# ---- the work, in each library --------------------------------------------------------------


def loop_hessian(lib: ModuleType, model: Any, x: Any, create_graph: bool) -> tuple[Any, Any]:
    """Hessian [batch, out, in, in] and prediction [batch, out] by the loop of this module's docstring."""
    grad = lib.autograd.grad
    pred = model(x)  # 1
    ones = lib.ones_like(pred[:, 0])
    hessian = []
    for o in range(pred.shape[1]):
        (row,) = grad(pred[:, o], x, ones, create_graph=True)  # 2: (batch, in)
        columns = [
            grad(row[:, i], x, ones, retain_graph=True, create_graph=create_graph)[0]  # 3
            for i in range(x.shape[1])
        ]
        hessian.append(lib.stack(columns, 1))
    return lib.stack(hessian, 1), pred


def functional_hessian(torch: ModuleType, model: Any, x: Any) -> tuple[Any, Any]:
    """The same by torch.func, forward over reverse."""

    def twice(row: Any) -> tuple[Any, Any]:
        pred = model(row)
        return pred, pred

    nested = torch.func.jacfwd(torch.func.jacrev(twice, has_aux=True), has_aux=True)
    return torch.func.vmap(nested)(x)


def eager_call(lib: ModuleType, problem: Problem, by: Callable[..., tuple[Any, Any]]) -> Call:
    """What to time for a library with PyTorch's names; `by(lib, model, x)` gives the Hessian."""
    model = models.sequential(lib, problem.weights, problem.activation, problem.device)
    parameters = list(model.parameters())
    x = lib.tensor(problem.x, device=problem.device, requires_grad=True)

    def hessian() -> tuple[Any, Any]:
        return by(lib, model, x)

    def with_backward() -> list[Any]:
        for leaf in (x, *parameters):
            leaf.grad = None
        hessian, pred = by(lib, model, x)
        ((hessian**2).mean() + (pred**2).mean()).backward()
        return [p.grad for p in parameters]

    return with_backward if problem.backward else hessian


def jax_call(jax: ModuleType, problem: Problem) -> Call:
    """What to time for JAX."""
    device = jax_device(jax, problem.device)
    parameters = models.jax_parameters(jax, problem.weights, device)
    x = jax.device_put(problem.x, device)
    forward = models.jax_forward(jax, problem.activation)

    def twice(parameters: Any, row: Any) -> tuple[Any, Any]:
        pred = forward(parameters, row)
        return pred, pred

    batched = jax.vmap(jax.hessian(twice, argnums=1, has_aux=True), in_axes=(None, 0))

    def loss(parameters: Any, x: Any) -> Any:
        hessian, pred = batched(parameters, x)
        return (hessian**2).mean() + (pred**2).mean()

    compiled = jax.jit(jax.grad(loss) if problem.backward else batched)
    if not problem.backward:
        return lambda: compiled(parameters, x)
    return lambda: [leaf for layer in compiled(parameters, x) for leaf in layer]


def calls_for(problem: Problem, present: dict[str, ModuleType]) -> dict[str, Call]:
    """Name -> what to time, ours first."""

    def loop(lib: ModuleType, model: Any, x: Any) -> tuple[Any, Any]:
        return loop_hessian(lib, model, x, create_graph=problem.backward)

    calls = {OURS: eager_call(ag, problem, loop)}
    for name, module in present.items():
        if name == "jax":
            calls[name] = jax_call(module, problem)
        else:
            calls[name] = eager_call(module, problem, loop if name == "torch" else functional_hessian)
    return calls


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
        elif name == "torch" or has_tf32():
            lib.set_float32_matmul_precision(PRECISION[precision])


def has_tf32() -> bool:
    """Whether our side can be asked for TF32; if not, its products are FP32."""
    return hasattr(ag, "set_float32_matmul_precision")


# ---- measuring ------------------------------------------------------------------------------


def count(name: str, module: ModuleType, call: Call, problem: Problem) -> dict[str, int]:
    """Counts of one call; JAX compiles its products away from view and has none."""
    batch, hidden = len(problem.x), problem.weights[0][0].shape[0]
    if name == "jax":
        return {}
    if name != OURS:
        products, calls = counting.count_torch(module, call)
        return {"hidden products": counting.hidden_products(products, batch, hidden), "ATen calls": calls}
    products, launches = counting.count_ours(ag, call)
    return {
        "hidden products": counting.hidden_products(products, batch, hidden),
        "peak bytes": counting.peak_bytes(problem.device, call),
    } | ({} if problem.device == "cpu" else {"launches": launches})


def measure(problem: Problem, label: str, args: argparse.Namespace, precision: str, report: Report) -> None:
    """Check that all agree, count, time, and add the case."""
    present = args.present
    modules = {OURS: ag, **present}
    with matmul_precision(precision, present, problem.device):
        calls = calls_for(problem, present)
        require_agreement({name: call() for name, call in calls.items()}, TOLERANCE[precision], label)
        counts = {name: count(name, modules[name], call, problem) for name, call in calls.items()}
        contenders = [
            Contender(name, call, clock_for(modules[name], problem.device)) for name, call in calls.items()
        ]
        report.add(label, interleave(contenders, args.repeats), counts=counts)


def cases(args: argparse.Namespace, weights: models.Weights, x: np.ndarray) -> list[tuple[Problem, str, str]]:
    """(problem, label, precision) of every case asked for."""
    chosen = []
    for precision in args.precisions:
        suffix = "" if device_kind(args.device) == "cpu" else f", {precision.upper()}"
        for activation in args.activations:
            for part in args.parts:
                backward = part == "backward"
                label = f"{activation}, {'with' if backward else 'no'} backward{suffix}"
                chosen.append((Problem(weights, x, activation, backward, args.device), label, precision))
    return chosen


def run(args: argparse.Namespace) -> Report:
    """Run every case; the report's counts hold the hidden products of each library."""
    kind = device_kind(args.device)
    args.batch = args.batch or BATCH[kind]
    args.precisions = args.precisions or (["fp32", "tf32"] if kind == "cuda" and has_tf32() else ["fp32"])
    if args.tiny:
        args.batch, args.hidden = 24, 8
    args.present, absent = load_peers(args.peers, PEERS, args.device)
    sizes = [INPUTS, *[args.hidden] * args.layers, OUTPUTS]
    weights = models.make_weights(sizes)
    x = np.random.default_rng(1).uniform(-1, 1, (args.batch, INPUTS)).astype(np.float32)
    network = f"{INPUTS} -> {args.layers} x {args.hidden} -> {OUTPUTS}"
    title = f"Hessian, {network}, batch {args.batch}, {args.device}"
    config = {"batch": args.batch, "hidden": args.hidden, "layers": args.layers, "tiny": args.tiny}
    if kind == "cuda" and not has_tf32():
        absent["TF32"] = "autograd_gpu has no set_float32_matmul_precision here"
    report = Report(NAME, title, kind, config, absent, args.json)
    chosen = cases(args, weights, x)
    report.plan(label for _, label, _ in chosen)
    for problem, label, precision in chosen:
        with report.attempt(label):
            measure(problem, label, args, precision, report)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
