"""Function transforms of small functions, where overhead is what one pays for.

The same code runs in autograd_gpu (ag.func), PyTorch (torch.func) and JAX, where nothing is compiled by jit. The
network has two hidden layers with tanh. Counts give the matrix products of one call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import counting, models
from .common import device_kind, make_parser, require_agreement, run_workload
from .peers import clock_for, jax_device, load_peers
from .report import OURS, Report
from .timing import Call, Contender, interleave

NAME = "transforms"
PEERS = ("torch.func", "jax eager")
SIZES = (4, 16, 16, 1)
BATCH = 32


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=21)


def cases(func: Any, forward: Callable[[Any, Any], Any], params: Any, x: Any, t: Any) -> dict[str, Call]:
    """Case -> what to time. `func` has the names of torch.func, `forward(params, x)` is the network, x one batch."""

    def scalar(row: Any) -> Any:
        return forward(params, row)[0]

    def energy(params: Any, row: Any) -> Any:
        return (forward(params, row) ** 2).sum()

    row, direction = x[0], t[0]
    return {
        "vmap": lambda: [func.vmap(scalar)(x)],
        "jvp": lambda: list(func.jvp(scalar, (row,), (direction,))),
        "grad": lambda: [func.grad(scalar)(row)],
        "jacfwd": lambda: [func.jacfwd(scalar)(row)],
        "jacrev": lambda: [func.jacrev(lambda row: forward(params[:-1], row))(row)],
        "hvp": lambda: list(func.jvp(func.grad(scalar), (row,), (direction,))),
        "hessian": lambda: [func.hessian(scalar)(row)],
        "vmap(grad)": lambda: [func.vmap(func.grad(scalar))(x)],
        "per-sample gradients": lambda: flat(func.vmap(func.grad(energy), (None, 0))(params, x)),
        "vmap(hessian)": lambda: [func.vmap(func.hessian(scalar))(x)],
    }


def flat(params: Any) -> list[Any]:
    """The arrays of a list of (weight, bias)."""
    return [array for layer in params for array in layer]


def tensor_forward(params: Any, x: Any) -> Any:
    """The network in a library with PyTorch's names."""
    for matrix, bias in params[:-1]:
        x = (x @ matrix.T + bias).tanh()
    matrix, bias = params[-1]
    return x @ matrix.T + bias


def tensor_calls(lib: ModuleType, device: str) -> dict[str, Call]:
    """The cases in autograd_gpu or PyTorch."""
    weights, x, t = inputs()
    params = [tuple(lib.tensor(array, device=device) for array in layer) for layer in weights]
    points = [lib.tensor(array, device=device) for array in (x, t)]
    return cases(lib.func, tensor_forward, params, *points)


def jax_calls(jax: ModuleType, device: str) -> dict[str, Call]:
    """The cases in JAX, which compiles none of them."""
    weights, x, t = inputs()
    home = jax_device(jax, device)
    params = models.jax_parameters(jax, weights, home)
    points = [jax.device_put(array, home) for array in (x, t)]
    return cases(jax, models.jax_forward(jax, "Tanh"), params, *points)


def inputs() -> tuple[models.Weights, np.ndarray, np.ndarray]:
    """Weights, a batch of points, and directions."""
    rng = np.random.default_rng(5)
    x, t = (rng.standard_normal((BATCH, SIZES[0])).astype(np.float32) for _ in range(2))
    return models.make_weights(SIZES), x, t


def products(name: str, module: ModuleType, call: Call) -> dict[str, int]:
    """The matrix products of one call, where the library tells."""
    if name == "jax eager":
        return {}
    counts = counting.count_ours(ag, call) if name == OURS else counting.count_torch(module, call)
    return {"matrix products": sum(counts[0].values())}


def run(args: argparse.Namespace) -> Report:
    """Time every case, and count its products."""
    present, absent = load_peers(args.peers, PEERS, args.device)
    modules: dict[str, ModuleType] = {OURS: ag, **present}
    calls = {name: (jax_calls if name == "jax eager" else tensor_calls)(module, args.device)
             for name, module in modules.items()}
    title = f"Function transforms of a network {'-'.join(map(str, SIZES))}, float32, {args.device}"
    config = {"sizes": SIZES, "batch": BATCH, "tiny": args.tiny}
    report = Report(NAME, title, device_kind(args.device), config, absent, args.json)
    report.plan(calls[OURS])
    for case in calls[OURS]:
        with report.attempt(case):
            require_agreement({name: by_case[case]() for name, by_case in calls.items()}, 1e-4, case)
            contenders = [Contender(name, by_case[case], clock_for(modules[name], args.device))
                          for name, by_case in calls.items()]
            timings = interleave(contenders, args.repeats, sample_s=1e-4 if args.tiny else 5e-3)
            counts = {name: products(name, modules[name], by_case[case]) for name, by_case in calls.items()}
            report.add(case, timings, unit="us", counts=counts)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
