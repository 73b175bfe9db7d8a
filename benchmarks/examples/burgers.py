"""A network solves Burgers' equation: a smooth wave steepens into a shock.

    u_t + u u_x = nu u_xx    for -1 < x < 1 and 0 < t < 1, with nu = 0.01 / pi,
    u = -sin(pi x)           at t = 0,
    u = 0                    at x = -1 and x = 1.

1. The network is built into a function that has the initial and boundary values for any weights.
2. The residual is the left side of the equation minus the right side; the loss is its mean square over points.
   `value_and_derivatives` computes u, u_t, u_x and u_xx in one pass, and backward goes through them to the weights.
3. Training takes five rounds: one of Adam, then four of L-BFGS. Each round draws new points, more of them where the
   residual is large: the shock is so thin that uniform points would miss it.
4. The exact solution is known. The program prints the error, and draws both into out/burgers.png.

The problem is that of Raissi, Perdikaris and Karniadakis, Physics-informed neural networks (2019); the points are drawn
as in Wu et al., A comprehensive study of non-adaptive and residual-based adaptive sampling (2023).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

from ..peers import clock_for, load_peers
from ..plots import COLOURS, INK, new_figure, save
from ..report import OURS
from ..timing import Contender, interleave
from .command_line import parse

NU = 0.01 / math.pi
POINTS = 2000
ROUNDS = 5  # of which the first uses Adam
SLICES = (0.25, 0.5, 0.75)

Residual = Callable[[ag.Tensor, ag.Tensor], ag.Tensor]


# ---- the equation ---------------------------------------------------------------------------


def make_network(lib: ModuleType = ag, width: int = 20, hidden: int = 4) -> Any:
    """An MLP with Tanh from (t, x) to one number, in our library or another one with PyTorch's names."""
    sizes = [2, *[width] * hidden]
    layers = [part for m, n in itertools.pairwise(sizes) for part in (lib.nn.Linear(m, n), lib.nn.Tanh())]
    return lib.nn.Sequential(*layers, lib.nn.Linear(width, 1))


def solution(network: Any, t: Any, x: Any, lib: ModuleType = ag) -> Any:
    """u(t, x), for numbers or for vectors: at t = 0 and at the boundary it is right whatever the network says."""
    return -lib.sin(math.pi * x) + t * (1 - x**2) * network(lib.stack([t, x], -1))[..., 0]


def make_residual(network: nn.Module) -> Residual:
    """The residual at points with coordinates t and x: written for one point, applied to all of them by vmap."""
    derivatives = func.value_and_derivatives(lambda t, x: solution(network, t, x), argnums=(0, 1))

    def residual(t: ag.Tensor, x: ag.Tensor) -> ag.Tensor:
        u, (u_t, u_x), (_, (_, u_xx)) = derivatives(t, x)
        return u_t + u * u_x - NU * u_xx

    return func.vmap(residual)


def nested_residual(network: Any, t: Any, x: Any, lib: ModuleType = ag) -> Any:
    """The same residual by calls of grad on the gradient, for comparison; also in PyTorch."""
    t, x = t.detach().requires_grad_(), x.detach().requires_grad_()
    u = solution(network, t, x, lib)
    u_t, u_x = lib.autograd.grad(u.sum(), [t, x], create_graph=True)
    (u_xx,) = lib.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def exact(t: np.ndarray, x: np.ndarray, nodes: int = 100) -> np.ndarray:
    """The exact u(t, x), t and x broadcast, by the Cole-Hopf transform: u = -2 nu (log v)_x turns Burgers' equation
    into the heat equation for v, whose solution is an integral with the weight of Gauss-Hermite quadrature."""
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[..., None] - np.sqrt(4 * NU * t)[..., None] * z
    v = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * NU))
    return -(np.sin(np.pi * y) * v).sum(-1) / v.sum(-1)


# ---- training -------------------------------------------------------------------------------


class Trained(NamedTuple):
    """A network, and the loss of each step."""

    network: nn.Module
    losses: list[float]


def draw_points(residual: Residual, count: int, device: str) -> tuple[ag.Tensor, ag.Tensor]:
    """`count` of five times as many uniform points, drawn with probability 1 + |residual| / mean |residual|."""
    t, x = ag.rand(5 * count, device=device), 2 * ag.rand(5 * count, device=device) - 1
    with ag.no_grad():
        size = residual(t, x).abs()
    chosen = ag.multinomial(1 + size / size.mean(), count)
    return t[chosen], x[chosen]


def minimize(optimizer: optim.Optimizer, residual: Callable[[], ag.Tensor], steps: int, losses: list[float]) -> None:
    """Makes `steps` steps on the mean square of the residual, and appends each loss to `losses`."""

    def closure() -> ag.Tensor:
        optimizer.zero_grad()
        loss = residual().square().mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def train(steps: int, device: str, points: int = POINTS, show: Callable[[str], None] = print) -> Trained:
    """Five rounds of steps / 5 steps each; for L-BFGS they are the iterations of one call."""
    network, losses = make_network().to(device), []
    residual, each, start = make_residual(network), steps // ROUNDS, time.perf_counter()
    for number in range(1, ROUNDS + 1):
        at_points = functools.partial(residual, *draw_points(residual, points, device))
        if number == 1:
            minimize(optim.Adam(network.parameters(), lr=3e-3), at_points, each, losses)
        else:
            options = {"tolerance_grad": 0, "tolerance_change": 0, "line_search_fn": "strong_wolfe"}
            lbfgs = optim.LBFGS(network.parameters(), max_iter=each, history_size=50, **options)
            minimize(lbfgs, at_points, 1, losses)
        error, seconds = relative_error(network, device), time.perf_counter() - start
        show(f"round {number} of {ROUNDS}: loss {losses[-1]:.1e}, relative L2 error {error:.4f}, {seconds:.0f} s")
    return Trained(network, losses)


# ---- results --------------------------------------------------------------------------------


def on_grid(network: nn.Module, device: str, times: int = 101, places: int = 257) -> tuple[np.ndarray, ...]:
    """t, x, the network's u and the exact u on a grid; each of shape (times, places)."""
    t, x = np.meshgrid(np.linspace(0, 1, times), np.linspace(-1, 1, places), indexing="ij")
    with ag.no_grad():
        u = solution(network, *(ag.tensor(c, dtype=ag.float32, device=device) for c in (t, x)))
    return t, x, u.cpu().numpy(), exact(t, x)


def relative_error(network: nn.Module, device: str) -> float:
    """The L2 norm of the error over that of the exact solution, on the grid."""
    _, _, found, expected = on_grid(network, device)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
