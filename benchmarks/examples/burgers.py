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

The problem is that of Raissi et al., Physics-informed neural networks (2019). Points are drawn as in Wu et al., A
comprehensive study of non-adaptive and residual-based adaptive sampling (2023).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

from ..peers import clock_for, load_peers
from ..plots import COLOURS, INK, new_figure, save
from ..report import OURS
from ..timing import Contender, interleave
from .command_line import one_thread, parse

NU = 0.01 / math.pi
POINTS = 2000
GALLERY = "--steps 500"  # of the small run that the documentation site shows
ROUNDS = 5  # of which the first uses Adam
SLICES = (0.25, 0.5, 0.75)
LBFGS_OPTIONS: dict[str, Any] = {"tolerance_grad": 0, "tolerance_change": 0, "line_search_fn": "strong_wolfe"}

Residual = Callable[[ag.Tensor, ag.Tensor], ag.Tensor]  # of t and x


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
    """The exact u(t, x), by the Cole-Hopf transform and Gauss-Hermite quadrature.

    u = -2 nu (log v)_x makes the heat equation for v of Burgers' equation: v is an integral with a Gaussian weight.
    """
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[..., None] - np.sqrt(4 * NU * t)[..., None] * z
    v = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * NU))
    return -(np.sin(np.pi * y) * v).sum(-1) / v.sum(-1)


# ---- training -------------------------------------------------------------------------------


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


def train(steps: int, device: str, points: int = POINTS) -> tuple[nn.Module, list[float]]:
    """Five rounds of steps / 5 steps each, which for L-BFGS are the iterations of one call: the network, the losses."""
    losses: list[float] = []
    per_round, start, network = steps // ROUNDS, time.perf_counter(), make_network().to(device)
    residual = make_residual(network)
    for number in range(1, ROUNDS + 1):
        at_points = functools.partial(residual, *draw_points(residual, points, device))
        if number == 1:
            minimize(optim.Adam(network.parameters(), lr=3e-3), at_points, per_round, losses)
        else:
            minimize(optim.LBFGS(network.parameters(), max_iter=per_round, **LBFGS_OPTIONS), at_points, 1, losses)
        error, seconds = relative_error(network, device), time.perf_counter() - start
        print(f"round {number} of {ROUNDS}: loss {losses[-1]:.1e}, relative L2 error {error:.4f}, {seconds:.0f} s")
    return network, losses


def on_grid(network: nn.Module, device: str) -> tuple[np.ndarray, ...]:
    """t, x, the network's u and the exact u on a grid; a row for each time."""
    t, x = np.meshgrid(np.linspace(0, 1, 101), np.linspace(-1, 1, 257), indexing="ij")
    with ag.no_grad():
        u = solution(network, *[ag.tensor(c, dtype=ag.float32, device=device) for c in (t, x)])
    return t, x, u.cpu().numpy(), exact(t, x)


def relative_error(network: nn.Module, device: str) -> float:
    """The L2 norm of the error over that of the exact solution, on the grid."""
    *_, u, expected = on_grid(network, device)
    return float(np.linalg.norm(u - expected) / np.linalg.norm(expected))


def step_times(network: nn.Module, device: str, points: int = POINTS) -> dict[str, float]:
    """Milliseconds for a loss and its backward: by one pass, by nested calls of grad, and by those in PyTorch."""

    def contender(name: str, lib: ModuleType, residual: Callable[[], Any]) -> Contender:
        return Contender(name, lambda: residual().square().mean().backward(), clock_for(lib, device))

    at = ag.rand(2, points, device=device)
    contenders = [
        contender("one pass", ag, functools.partial(make_residual(network), *at)),
        contender("nested grad", ag, functools.partial(nested_residual, network, *at)),
    ]
    for torch in load_peers(["torch"], ["torch"], device)[0].values():
        own, (t, x) = make_network(torch).to(device), torch.rand(2, points, device=device)
        contenders.append(contender("nested in PyTorch", torch, functools.partial(nested_residual, own, t, x, torch)))
    with one_thread():
        return {name: 1000 * timing.median for name, timing in interleave(contenders, 7).items()}


def draw(network: nn.Module, losses: list[float], device: str, path: Path) -> None:
    """The solution, three slices of it with the exact ones, and the loss of each step."""
    figure, (field, *slices, curve) = new_figure(2 + len(SLICES), width=3.1, height=3)
    t, x, u, expected = on_grid(network, device)
    figure.colorbar(field.pcolormesh(t, x, u, cmap="RdBu_r", shading="gouraud", rasterized=True), ax=field)
    field.set(title="u(t, x) of the network", xlabel="t", ylabel="x")
    for ax, time_of_slice in zip(slices, SLICES, strict=True):
        row = round(time_of_slice * (len(t) - 1))
        ax.plot(x[row], expected[row], color=COLOURS["jax"], lw=4, alpha=0.5, label="exact")
        ax.plot(x[row], u[row], color=COLOURS[OURS], lw=1.5, ls="--", label="network")
        ax.set(title=f"t = {time_of_slice}", xlabel="x", ylim=(-1.1, 1.1))
    slices[0].legend(frameon=False, fontsize=9)
    curve.semilogy(losses, color=INK, lw=0.8)
    curve.set(title="mean square residual", xlabel="evaluation")
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, prints, draws."""
    args = parse(__doc__, 2500, argv, least=ROUNDS)
    ag.manual_seed(args.seed)
    with one_thread():
        network, losses = train(args.steps, args.device)
    draw(network, losses, args.device, args.out / "burgers.png")
    times = [f"{name} {ms:.1f} ms" for name, ms in step_times(network, args.device).items()]
    print(f"Loss and backward at {POINTS} points: {', '.join(times)}")
    print(f"Picture: {args.out / 'burgers.png'}")


if __name__ == "__main__":
    main()
