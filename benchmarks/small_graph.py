"""Overhead: small graphs of 2x2 float32 tensors, where the arithmetic costs next to nothing.

The same code runs in autograd_gpu and PyTorch. NumPy alone, with the derivatives written out by
hand and nothing recorded, is the floor that a Python library on NumPy arrays cannot go below.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from .common import device_kind, make_parser, require_agreement, run_workload
from .peers import clock_for, load_peers
from .report import OURS, Report
from .timing import Call, Contender, interleave

NAME = "small_graph"
PEERS = ("torch", "numpy")
LENGTH = 20  # operators in a chain


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=21)


# ---- autograd_gpu and PyTorch ---------------------------------------------------------------


def product_chain(a: Any, b: Any) -> Any:
    """Twenty products."""
    for _ in range(LENGTH):
        a = a * b
    return a


def mixed_chain(a: Any, b: Any) -> Any:
    """Twenty operators of ten kinds, half of them on one tensor, all bounded and smooth."""
    for _ in range(LENGTH // 10):
        a = -(((a * b).tanh() + 0.5).sin())
        a = ((a.exp() - b).sigmoid() / 2.0).cos()
    return a


def tensor_calls(lib: ModuleType, device: str) -> dict[str, Call]:
    """Case -> what to time, in a library with PyTorch's names."""
    grad = lib.autograd.grad
    a, b, g = (lib.tensor(array, device=device) for array in inputs())
    a.requires_grad_()
    b.requires_grad_()
    return {
        "a*b": lambda: [a * b],
        "grad(a*b, [a, b], g)": lambda: grad(a * b, [a, b], g),
        "20 products, forward and grad": lambda: grad(product_chain(a, b), [a, b], g),
        "20 mixed operators, forward and grad": lambda: grad(mixed_chain(a, b), [a, b], g),
    }


# ---- NumPy alone ----------------------------------------------------------------------------


def numpy_product_chain(a: Any, b: Any, g: Any) -> list[Any]:
    """Gradients of product_chain, written out."""
    values = [a]
    for _ in range(LENGTH):
        values.append(values[-1] * b)
    grad_b = None
    for value in values[-2::-1]:
        term = g * value
        grad_b = term if grad_b is None else grad_b + term
        g = g * b
    return [g, grad_b]


def numpy_mixed_chain(a: Any, b: Any, g: Any) -> list[Any]:
    """Gradients of mixed_chain, written out."""
    saved = []
    half, one = np.float32(0.5), np.float32(1.0)
    for _ in range(LENGTH // 10):
        t = np.tanh(a * b)
        u = t + half
        e = np.exp(-np.sin(u))
        s = one / (one + np.exp(-(e - b)))
        v = s / 2.0
        saved.append((a, t, u, e, s, v))
        a = np.cos(v)
    grad_b = None
    for a, t, u, e, s, v in reversed(saved):
        g = (g * -np.sin(v)) / 2.0 * (s * (one - s))
        term = -g
        grad_b = term if grad_b is None else grad_b + term
        g = -(g * e) * np.cos(u) * (one - t * t)
        grad_b = grad_b + g * a
        g = g * b
    return [g, grad_b]


def numpy_calls() -> dict[str, Call]:
    """Case -> what to time, in NumPy."""
    a, b, g = inputs()

    def product() -> list[Any]:
        _ = a * b  # the forward that the gradient belongs to
        return [g * b, g * a]

    return {
        "a*b": lambda: [a * b],
        "grad(a*b, [a, b], g)": product,
        "20 products, forward and grad": lambda: numpy_product_chain(a, b, g),
        "20 mixed operators, forward and grad": lambda: numpy_mixed_chain(a, b, g),
    }


# ---- measuring ------------------------------------------------------------------------------


def inputs() -> list[np.ndarray]:
    """a, b and the output gradient g."""
    rng = np.random.default_rng(3)
    return [rng.uniform(0.5, 1.5, (2, 2)).astype(np.float32) for _ in range(3)]


def operators(case: str) -> int:
    """Forward operators in a case."""
    return LENGTH if case.startswith(str(LENGTH)) else 1


def run(args: argparse.Namespace) -> Report:
    """Time every case; counts give the forward operators of a call, and its time for each of them."""
    present, absent = load_peers(args.peers, PEERS, args.device)
    calls = {OURS: tensor_calls(ag, args.device)}
    builders: dict[str, Callable[[], dict[str, Call]]] = {
        "torch": lambda: tensor_calls(present["torch"], args.device),
        "numpy": numpy_calls,
    }
    calls |= {name: builders[name]() for name in present}
    modules = {OURS: ag, **present}
    report = Report(
        NAME,
        f"Small graphs, 2x2 float32, {args.device}",
        device_kind(args.device),
        {"length": LENGTH, "tiny": args.tiny},
        absent,
        args.json,
    )
    report.plan(calls[OURS])
    for case in calls[OURS]:
        with report.attempt(case):
            measure(report, case, {name: (modules[name], by_case[case]) for name, by_case in calls.items()}, args)
    return report


def measure(
    report: Report, case: str, calls: Mapping[str, tuple[ModuleType, Call]], args: argparse.Namespace
) -> None:
    """Check, time and add one case."""
    require_agreement({name: call() for name, (_, call) in calls.items()}, 1e-5, case)
    contenders = [Contender(name, call, clock_for(module, args.device)) for name, (module, call) in calls.items()]
    timings = interleave(contenders, args.repeats, sample_s=1e-4 if args.tiny else 5e-3)
    n = operators(case)
    counts = {
        name: {"forward operators": n, "us per operator": round(timing.median * 1e6 / n, 3)}
        for name, timing in timings.items()
    }
    report.add(case, timings, unit="us", counts=counts)


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
