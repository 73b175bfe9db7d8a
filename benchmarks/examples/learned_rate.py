"""Learning rates are learned: gradient descent on what gradient descent does.

A task is a sine wave of random amplitude and phase. A small network with random weights is to fit it in ten steps of
SGD. How long should the steps be, in each layer? The loss after them is a differentiable function of the rates:

1. `stack_module_state` makes one network per task, and `vmap` runs all of them at once.
2. `SGD(..., differentiable=True)` takes tensors as learning rates, and records its steps.
3. The loss after the last step, at other points of each wave, goes backward through all steps to the rates.
4. Adam changes the logarithms of the rates, so that they stay positive. Each of its steps draws new tasks.

The program prints the loss on tasks that were not learned from, for the learned rates and for fixed ones, and draws
out/learned_rate.png. The waves are those of Finn, Abbeel and Levine, Model-agnostic meta-learning (2017), on one
period; rates are learned like that by Li et al., Meta-SGD (2017), together with the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.autograd import grad
from autograd_gpu.autograd.graph import allow_mutation_on_saved_tensors

from ..plots import COLOURS, INK, new_figure, save
from ..report import OURS
from .command_line import one_thread, parse

INNER_STEPS = 10
TASKS = 16  # in an outer step
LAYERS = ("first layer", "second layer", "last layer")
INITIAL_RATE = 0.01  # of each layer
FIXED_RATES = (INITIAL_RATE, 0.1, 0.5)  # the same for each layer, to compare with

Weights = dict[str, ag.Tensor]


class Tasks(NamedTuple):
    """Waves: points to learn from, and other points to be tested at. Each tensor has the shape (tasks, points, 1)."""

    x: ag.Tensor
    y: ag.Tensor
    test_x: ag.Tensor
    test_y: ag.Tensor


def draw_tasks(count: int, device: str, points: int = 32) -> Tasks:
    """Waves a sin(x - b) with 0.1 < a < 5 and 0 < b < pi, at random points from -pi to pi."""
    amplitude = 0.1 + 4.9 * ag.rand(count, 1, 1, device=device)
    phase = math.pi * ag.rand(count, 1, 1, device=device)
    x, test_x = math.pi * (2 * ag.rand(2, count, points, 1, device=device) - 1)
    return Tasks(x, amplitude * ag.sin(x - phase), test_x, amplitude * ag.sin(test_x - phase))


# ---- the inner steps: SGD on the tasks ------------------------------------------------------


def make_network() -> nn.Module:
    """An MLP from a number to a number, with three linear layers."""
    return nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))


NETWORK = make_network()  # functions below run it with the weights that they are given


def predict(weights: Weights, x: ag.Tensor) -> ag.Tensor:
    """What the network of each task says at its own points."""
    return func.vmap(lambda weights, x: func.functional_call(NETWORK, weights, (x,)))(weights, x)


def losses(weights: Weights, x: ag.Tensor, y: ag.Tensor) -> ag.Tensor:
    """The Huber loss of each task. Its gradient is bounded, so that too long steps make SGD slow, not infinite."""
    return nn.functional.huber_loss(predict(weights, x), y, reduction="none").mean((1, 2))


def fit(rates: ag.Tensor, tasks: Tasks) -> tuple[Weights, ag.Tensor]:
    """Makes the inner steps from new networks, with a rate for each layer.

    Returns the weights, and the mean test loss before the steps and after each of them.
    """
    stacked, _ = func.stack_module_state([make_network().to(rates.device) for _ in tasks.x])
    weights = {name: w.clone() for name, w in stacked.items()}  # not leaves, for a step writes to them
    named = list(weights.items())  # weight and bias of the first layer, of the second, of the last
    groups = [{"params": named[2 * i : 2 * i + 2], "lr": rate} for i, rate in enumerate(rates)]
    sgd = optim.SGD(groups, differentiable=True)
    tested = [losses(weights, tasks.test_x, tasks.test_y).mean()]
    for _ in range(INNER_STEPS):
        total = losses(weights, tasks.x, tasks.y).sum()  # a task's weights have a part in its own loss only
        for w, g in zip(weights.values(), grad(total, list(weights.values()), create_graph=True), strict=True):
            w.grad = g
        sgd.step()
        tested.append(losses(weights, tasks.test_x, tasks.test_y).mean())
    return weights, ag.stack(tested)


# ---- the outer steps: Adam on the rates -----------------------------------------------------


def learn(steps: int, device: str) -> list[list[float]]:
    """The rates before the outer steps and after each of them."""
    log_rates = ag.full((len(LAYERS),), math.log(INITIAL_RATE), device=device).requires_grad_()
    adam = optim.Adam([log_rates], lr=0.1)
    schedule = optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    history = [log_rates.detach().exp().tolist()]
    for step in range(1, steps + 1):
        adam.zero_grad()
        with allow_mutation_on_saved_tensors():  # the graph reads weights that later steps have changed
            tested = fit(log_rates.exp(), draw_tasks(TASKS, device))[1]
            tested[-1].backward()
        adam.step()
        schedule.step()
        history.append(log_rates.detach().exp().tolist())
        if step % 10 == 0 or step == steps:
            rates = ", ".join([f"{rate:.3f}" for rate in history[-1]])
            print(f"step {step}: loss after {INNER_STEPS} steps of SGD {tested[-1].item():.3f}, rates {rates}")
    return history


class Comparison(NamedTuple):
    """What some rates do on tasks that are the same for all: test losses by step, and the wave of one task."""

    name: str
    tested: list[float]
    x: ag.Tensor
    wave: ag.Tensor


def highest(tasks: Tasks) -> int:
    """The task with the highest wave, which is the one to show."""
    return int(tasks.y.abs().amax((1, 2)).argmax())


def compare(named: dict[str, list[float]], tasks: Tasks, seed: int) -> list[Comparison]:
    """Fits the tasks by each of the rates, from the same weights."""
    fits = []
    x = ag.linspace(-math.pi, math.pi, 100, device=tasks.x.device).reshape(1, -1, 1)
    shown = highest(tasks)
    for name, rates in named.items():
        ag.manual_seed(seed)
        weights, tested = fit(ag.tensor(rates, device=tasks.x.device), tasks)
        wave = predict({key: w[shown : shown + 1] for key, w in weights.items()}, x)
        fits.append(Comparison(name, tested.tolist(), x.flatten().cpu(), wave.detach().flatten().cpu()))
    return fits


def draw(history: list[list[float]], compared: list[Comparison], tasks: Tasks, path: Path) -> None:
    """The rates by outer step, the test loss by inner step, and one of the waves with its fits."""
    figure, (left, middle, right) = new_figure(3, width=3.8)
    for name, rates, colour in zip(LAYERS, zip(*history, strict=True), (COLOURS[OURS], "#38a169", INK), strict=True):
        left.semilogy(rates, color=colour, label=name)
    left.set(title="learning rates", xlabel="step of Adam")
    x, y = (points[highest(tasks)].flatten().cpu() for points in (tasks.x, tasks.y))
    right.plot(x, y, "o", color=INK, ms=3, label="to learn from")
    for entry, colour in zip(compared, ("#cbd5e0", "#a0aec0", "#718096", COLOURS[OURS]), strict=True):
        middle.plot(entry.tested, color=colour, label=entry.name)
        right.plot(entry.x, entry.wave, color=colour)
    middle.set(title="mean test loss", xlabel="step of SGD")
    right.set(title=f"a wave after {INNER_STEPS} steps", xlabel="x")
    for ax in (left, middle, right):
        ax.legend(frameon=False, fontsize=8)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Learns the rates, compares, draws; returns the test losses after the inner steps."""
    args = parse(__doc__, 60, argv)
    ag.manual_seed(args.seed)
    with one_thread():
        history = learn(args.steps, args.device)
        named = {f"{rate} in all layers": [rate] * len(LAYERS) for rate in FIXED_RATES} | {"learned": history[-1]}
        tasks = draw_tasks(100, args.device)
        compared = compare(named, tasks, args.seed)
    print(f"Mean test loss of {len(tasks.x)} new tasks after {INNER_STEPS} steps of SGD, by learning rate:")
    for entry in compared:
        print(f"  {entry.name:<20} {entry.tested[-1]:.3g}")
    draw(history, compared, tasks, args.out / "learned_rate.png")
    print(f"Picture: {args.out / 'learned_rate.png'}")
    return {entry.name: entry.tested[-1] for entry in compared}


if __name__ == "__main__":
    main()
