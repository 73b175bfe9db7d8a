"""A training step of a small physics-informed network: 256 points, 2-64-64-1, Tanh, Poisson's equation, Adam.

The loss is the mean square of the Laplacian minus a source. The Laplacian is taken as users write it: gradients of
gradients with `create_graph=True`, the same code for autograd_gpu, eager and by ag.compile (replayed.py), and for
PyTorch; on CUDA also as CUDA graphs. torch.compile refuses gradients of gradients. JAX runs one jitted step that
donates its state, with the trace of `jax.hessian`. Each step has points of its own.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from itertools import cycle
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import counting, models
from .common import device_kind, make_parser, require_agreement, run_workload
from .graphed import WARMUP, Step, as_it_is, graphed
from .peers import clock_for, jax_device, load_peers
from .replayed import absent_on, compiling_at_once, replays_on
from .report import COMPILED, GRAPH, OURS, REPLAY, TORCH_GRAPH, Report
from .timing import Call, Contender, interleave
from .train_mlp import jax_update

NAME = "pinn"
PEERS = ("torch", "jax")
BATCHES = 32  # of points, used in turn
RATE = 1e-3
CHECK_STEPS = WARMUP + 3  # so that programs are replayed


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__, repeats=11)
    parser.add_argument("--points", default="256", help="points per step, comma-separated")
    parser.add_argument("--hidden", type=int, default=64, help="width of the two hidden layers")
    return parser


def make_points(count: int) -> list[np.ndarray]:
    """BATCHES arrays of points in the unit square."""
    rng = np.random.default_rng(5)
    return [rng.uniform(0, 1, (count, 2)).astype(np.float32) for _ in range(BATCHES)]


def eager_step(
    lib: ModuleType, weights: models.Weights, points: int, device: str, made: Callable[[Step], Step] = as_it_is,
    **settings: bool,
) -> Call:  # fmt: skip
    """A training step of a library with PyTorch's names; `made`: by ag.compile, or as a graph."""
    model = models.sequential(lib, weights, "Tanh", device)
    update = lib.optim.Adam(model.parameters(), lr=RATE, **settings)

    def step(points: Any) -> Any:
        update.zero_grad(set_to_none=True)
        x = points.detach().requires_grad_()
        u = model(x)
        (first,) = lib.autograd.grad(u.sum(), x, create_graph=True)
        xx, yy = (lib.autograd.grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2))
        source = lib.sin(3 * x[:, 0]) * lib.sin(3 * x[:, 1])
        loss = ((xx + yy - source) ** 2).mean()
        loss.backward()
        update.step()
        return loss.detach()

    run, data = made(step), cycle([lib.tensor(x, device=device) for x in make_points(points)])
    return lambda: run(next(data))


def jax_step(jax: ModuleType, weights: models.Weights, points: int, device: str) -> Call:
    """One jitted training step; parameters and moments are donated."""
    jnp, forward, update = jax.numpy, models.jax_forward(jax, "Tanh"), jax_update(jax, "Adam")
    where = jax_device(jax, device)
    parameters = models.jax_parameters(jax, weights, where)
    state = (parameters, tuple(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)))
    data, number = cycle([jax.device_put(x, where) for x in make_points(points)]), 0

    def loss_of(parameters: Any, x: Any) -> Any:
        hessian = jax.hessian(lambda row: forward(parameters, row)[0])
        laplacian = jax.vmap(lambda row: jnp.trace(hessian(row)))(x)
        return ((laplacian - jnp.sin(3 * x[:, 0]) * jnp.sin(3 * x[:, 1])) ** 2).mean()

    def whole(state: Any, x: Any, step: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(state[0], x)
        return update(state[0], gradients, state[1], step), loss

    compiled = jax.jit(whole, donate_argnums=0)

    def step() -> Any:
        nonlocal state, number
        number += 1
        state, loss = compiled(state, next(data), float(number))
        return loss

    return step


def measure(report: Report, present: dict[str, ModuleType], points: int, args: argparse.Namespace) -> None:
    """Check, count, time and add one case."""
    case = models.make_weights([2, args.hidden, args.hidden, 1]), points, args.device
    steps = {OURS: eager_step(ag, *case)}
    steps |= {name: eager_step(ag, *case, made=made) for name, made in replays_on(args.device).items()}
    if "torch" in present:
        steps["torch"] = eager_step(present["torch"], *case)
    modules = {**present, TORCH_GRAPH: present.get("torch", ag)}
    for eager, graph in ((OURS, GRAPH), ("torch", TORCH_GRAPH)) if device_kind(args.device) == "cuda" else ():
        if eager in steps:
            lib = modules.get(eager, ag)
            steps[graph] = eager_step(lib, *case, made=functools.partial(graphed, lib), capturable=True)
    if "jax" in present:
        steps["jax"] = jax_step(present["jax"], *case)
    label = f"{points} points"
    losses = {name: [step() for _ in range(CHECK_STEPS)] for name, step in steps.items()}
    require_agreement(losses, 1e-3, f"{label}: losses of the first {CHECK_STEPS} steps")
    contenders = [Contender(name, step, clock_for(modules.get(name, ag), args.device)) for name, step in steps.items()]
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s)
    counts: dict[str, dict[str, Any]] = {name: {"steps/s": round(1 / t.median)} for name, t in timings.items()}
    for name in (OURS, REPLAY):
        counts[name] |= counting.counts_of_ours(ag, steps[name], args.device)
    report.add(label, timings, counts=counts)


def run(args: argparse.Namespace) -> Report:
    """Run every number of points."""
    args.sample_s = 0.02
    if args.tiny:
        args.points, args.hidden, args.sample_s = "16", 8, 1e-3
    present, absent = load_peers(args.peers, PEERS, args.device)
    kind = device_kind(args.device)
    absent |= absent_on(args.device) | {COMPILED: "torch.compile refuses gradients of gradients"}
    title = f"Training step of a physics-informed network, 2-{args.hidden}-{args.hidden}-1, {args.device}"
    config = {"sizes": [2, args.hidden, args.hidden, 1], "points": args.points, "tiny": args.tiny}
    report = Report(NAME, title, kind, config, absent, args.json)
    cases = [int(points) for points in args.points.split(",")]
    report.plan(f"{points} points" for points in cases)
    for points in cases:
        with report.attempt(f"{points} points"), compiling_at_once(not args.tiny):
            measure(report, present, points, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
