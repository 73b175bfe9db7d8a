"""Training steps of a small MLP, 784-256-256-10, cross entropy, with SGD and Adam.

Each library runs the step that its users write, on the same batches from the same weights.
PyTorch: zero_grad(set_to_none=True), and the fastest of the optimizer's own variants (default,
foreach, fused), which a note names. JAX: one jitted step that donates its state, Adam written
out. Ours runs by ag.compile, too, with native code and without (replayed.py). On CUDA our step, its
compiled program and PyTorch's step run as CUDA graphs, too, PyTorch's also by torch.compile
(graphed.py). All steps are checked against each other before they are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import cycle
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import counting, models
from .common import device_kind, make_parser, require_agreement, run_workload
from .graphed import WARMUP, Step, compiled, graphed, results_of
from .peers import clock_for, jax_device, load_peers
from .replayed import absent_on, compiling_at_once, replays_on
from .report import COMPILED, GRAPH, OURS, REPLAY, TORCH_GRAPH, Report
from .timing import Call, Contender, interleave

NAME = "train_mlp"
PEERS = ("torch", "jax")
BATCHES = 32  # distinct batches, used in turn
LEARNING_RATE = {"SGD": 1e-2, "Adam": 1e-3}
TORCH_VARIANTS: dict[str, dict[str, bool]] = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
CHECK_STEPS = WARMUP + 3  # so that graphs are replayed


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__, repeats=11)
    parser.add_argument("--batches", default="128,8", help="batch sizes, comma-separated")
    parser.add_argument("--optimizers", default="SGD,Adam", help="comma-separated: SGD, Adam")
    parser.add_argument("--hidden", type=int, default=256, help="width of the hidden layers")
    return parser


def make_data(batch: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """BATCHES pairs of random images [batch, 784] and labels [batch]."""
    rng = np.random.default_rng(4)
    return [
        (rng.normal(size=(batch, 784)).astype(np.float32), rng.integers(0, 10, batch)) for _ in range(BATCHES)
    ]


# ---- the step, in each library --------------------------------------------------------------


def step_and_optimizer(
    lib: ModuleType, weights: models.Weights, optimizer: str, device: str, **settings: bool
) -> tuple[Step, Any]:
    """step(x, y), one training step of a library with PyTorch's names, which answers the loss; and its optimizer."""
    model = models.sequential(lib, weights, "ReLU", device)
    loss_of = lib.nn.CrossEntropyLoss()
    update = getattr(lib.optim, optimizer)(model.parameters(), lr=LEARNING_RATE[optimizer], **settings)

    def step(x: Any, y: Any) -> Any:
        update.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        update.step()
        return loss

    return step, update


def step_on(lib: ModuleType, weights: models.Weights, optimizer: str, device: str, **settings: bool) -> Step:
    """The step alone."""
    return step_and_optimizer(lib, weights, optimizer, device, **settings)[0]


def in_turn(lib: ModuleType, step: Step, batch: int, device: str) -> Call:
    """The step on each batch of the data in turn."""
    data = cycle([tuple(lib.tensor(array, device=device) for array in pair) for pair in make_data(batch)])
    return lambda: step(*next(data))


def eager_step(
    lib: ModuleType, weights: models.Weights, batch: int, optimizer: str, device: str, **settings: bool
) -> Call:
    """A training step on batches in turn."""
    return in_turn(lib, step_on(lib, weights, optimizer, device, **settings), batch, device)


def graphed_step(
    lib: ModuleType, weights: models.Weights, batch: int, optimizer: str, device: str, **settings: bool
) -> Call:
    """The same as a CUDA graph. The steps that Adam counts must be in device memory for PyTorch's."""
    if optimizer != "SGD":
        settings["capturable"] = True
    return in_turn(lib, graphed(lib, step_on(lib, weights, optimizer, device, **settings)), batch, device)


def compiled_step(
    torch: ModuleType, weights: models.Weights, batch: int, optimizer: str, device: str, **settings: bool
) -> Call:
    """PyTorch's step by its compiler: the loss as one function, the optimizer's step as another, as its manual has it.

    The loss is copied, since the next call overwrites it.
    """
    if optimizer != "SGD":
        settings["capturable"] = True
    model, loss_of = models.sequential(torch, weights, "ReLU", device), torch.nn.CrossEntropyLoss()
    update = getattr(torch.optim, optimizer)(model.parameters(), lr=LEARNING_RATE[optimizer], **settings)
    loss_of_batch, move = compiled(torch, lambda x, y: loss_of(model(x), y)), torch.compile(update.step)

    def step(x: Any, y: Any) -> Any:
        update.zero_grad(set_to_none=True)
        loss = loss_of_batch(x, y)
        loss.backward()
        move()
        return loss.detach().clone()

    return in_turn(torch, step, batch, device)


def jax_update(jax: ModuleType, optimizer: str) -> Any:
    """`update(parameters, gradients, moments, step)` of plain SGD or Adam in JAX."""
    tree, rate, np_ = jax.tree.map, LEARNING_RATE[optimizer], jax.numpy

    def sgd(parameters: Any, gradients: Any, moments: Any, step: Any) -> Any:
        return tree(lambda p, g: p - rate * g, parameters, gradients), moments

    def adam(parameters: Any, gradients: Any, moments: Any, step: Any) -> Any:
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradients)
        one, two = 1 - 0.9**step, 1 - 0.999**step

        def move(p: Any, m: Any, v: Any) -> Any:
            return p - rate * (m / one) / (np_.sqrt(v / two) + 1e-8)

        return tree(move, parameters, first, second), (first, second)

    return {"SGD": sgd, "Adam": adam}[optimizer]


def jax_step(jax: ModuleType, weights: models.Weights, batch: int, optimizer: str, device: str) -> Call:
    """One jitted training step; parameters and moments are donated."""
    jnp = jax.numpy
    forward, update = models.jax_forward(jax, "ReLU"), jax_update(jax, optimizer)
    where = jax_device(jax, device)
    parameters = models.jax_parameters(jax, weights, where)
    zeros = [jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (parameters, tuple(zeros) if optimizer == "Adam" else ())
    data = cycle([jax.device_put(pair, where) for pair in make_data(batch)])
    number = 0

    def loss_of(parameters: Any, x: Any, y: Any) -> Any:
        logits = forward(parameters, x)
        chosen = jnp.take_along_axis(logits, y[:, None], axis=1)[:, 0]
        return (jax.nn.logsumexp(logits, axis=1) - chosen).mean()

    def whole(state: Any, x: Any, y: Any, step: Any) -> Any:
        parameters, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        return update(parameters, gradients, moments, step), loss

    compiled = jax.jit(whole, donate_argnums=0)

    def step() -> Any:
        nonlocal state, number
        number += 1
        state, loss = compiled(state, *next(data), float(number))
        return loss

    return step


# ---- measuring ------------------------------------------------------------------------------


def fastest_torch(
    torch: ModuleType, weights: models.Weights, batch: int, optimizer: str, args: argparse.Namespace
) -> tuple[str, dict[str, float]]:
    """The quickest variant of PyTorch's optimizer here, and the median seconds of each."""
    clock = clock_for(torch, args.device)
    contenders = [
        Contender(name, eager_step(torch, weights, batch, optimizer, args.device, **settings), clock)
        for name, settings in TORCH_VARIANTS.items()
    ]
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s)
    medians = {name: timing.median for name, timing in timings.items()}
    return min(medians, key=medians.__getitem__), medians


def steps_for(
    present: dict[str, ModuleType],
    weights: models.Weights,
    batch: int,
    optimizer: str,
    args: argparse.Namespace,
    variant: str,
) -> dict[str, Call]:
    """Name -> a fresh step, ours first."""
    on_cuda, case = device_kind(args.device) == "cuda", (weights, batch, optimizer, args.device)
    steps = {OURS: eager_step(ag, *case)}
    for name, made in replays_on(args.device).items():
        steps[name] = in_turn(ag, made(step_on(ag, weights, optimizer, args.device)), batch, args.device)
    if on_cuda:
        steps[GRAPH] = graphed_step(ag, *case)
    if "torch" in present:
        torch, settings = present["torch"], TORCH_VARIANTS[variant]
        steps["torch"] = eager_step(torch, weights, batch, optimizer, args.device, **settings)
        if on_cuda:
            steps[TORCH_GRAPH] = graphed_step(torch, weights, batch, optimizer, args.device, **settings)
            steps[COMPILED] = compiled_step(torch, weights, batch, optimizer, args.device, **settings)
    if "jax" in present:
        steps["jax"] = jax_step(present["jax"], *case)
    return steps


def label_of(optimizer: str, batch: int) -> str:
    """The name of a case."""
    return f"{optimizer}, batch {batch}"


def measure(
    report: Report, present: dict[str, ModuleType], batch: int, optimizer: str, args: argparse.Namespace
) -> None:
    """Check, count, time and add one case."""
    weights = models.make_weights([784, args.hidden, args.hidden, 10])
    label, variant, notes = label_of(optimizer, batch), "default", []
    if "torch" in present:
        variant, medians = fastest_torch(present["torch"], weights, batch, optimizer, args)
        listed = ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in medians.items())
        notes = [f"torch runs its {variant} optimizer, the fastest of {listed}"]
    steps = steps_for(present, weights, batch, optimizer, args, variant)
    losses, refused = results_of(steps, lambda name, step: [step() for _ in range(CHECK_STEPS)])
    notes += refused
    require_agreement(losses, 1e-3, f"{label}: losses of the first {CHECK_STEPS} steps")
    modules = {**present, **dict.fromkeys((TORCH_GRAPH, COMPILED), present.get("torch", ag))}
    contenders = [
        Contender(name, step, clock_for(modules.get(name, ag), args.device)) for name, step in steps.items()
    ]
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s)
    counts: dict[str, dict[str, Any]] = {
        name: {"steps/s": round(1 / timing.median)} for name, timing in timings.items()
    }
    for name in (OURS, REPLAY):
        counts[name] |= counting.counts_of_ours(ag, steps[name], args.device)
    if "torch" in present:
        products, calls = counting.count_torch(present["torch"], steps["torch"])
        counts["torch"] |= {"products": products.total(), "ATen calls": calls}
    report.add(label, timings, counts=counts, notes=notes)


def run(args: argparse.Namespace) -> Report:
    """Run every batch size with every optimizer."""
    args.sample_s = 0.02
    if args.tiny:
        args.batches, args.hidden, args.sample_s = "8", 16, 1e-3
    present, absent = load_peers(args.peers, PEERS, args.device)
    absent |= absent_on(args.device)
    title = f"Training step, 784-{args.hidden}-{args.hidden}-10, {args.device}"
    config = {"sizes": [784, args.hidden, args.hidden, 10], "batches": args.batches, "tiny": args.tiny}
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    cases = [(name, int(batch)) for batch in args.batches.split(",") for name in args.optimizers.split(",")]
    report.plan(label_of(*case) for case in cases)
    for optimizer, batch in cases:
        with report.attempt(label_of(optimizer, batch)), compiling_at_once(not args.tiny):
            measure(report, present, batch, optimizer, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
