"""Operations on a hundred tensors of mixed sizes: ag.foreach, a loop over the tensors, torch._foreach_*.

Each op forward, forward and backward, and in place. The loop calls the op on one tensor of the same library as
ag.foreach. On CUDA the counts give the launches of our kernels.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import counting
from .common import device_kind, make_parser, require_agreement, run_workload
from .peers import clock_for, load_peers
from .report import LOOP, OURS, Report
from .timing import Call, Contender, interleave

NAME = "foreach"
PEERS = ("torch",)
SHAPES = ((64, 64), (64,), (256,), (3, 40), (1,), (128, 32), ())
Operation = Callable[..., Sequence[Any]]

# How an op is called on lists x, y, z of positive numbers. What is written stays nearly the same.
OPERATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "add": lambda op, x, y, z: op(x, y, alpha=2),
    "mul": lambda op, x, y, z: op(x, y),
    "addcmul": lambda op, x, y, z: op(x, y, z, value=0.5),  # PyTorch's addcdiv of mixed sizes raises in backward
    "lerp": lambda op, x, y, z: op(x, y, 0.25),
    "sqrt": lambda op, x, y, z: op(x),
    "sin": lambda op, x, y, z: op(x),
}
IN_PLACE: dict[str, Callable[..., Sequence[Any]]] = {
    "add_": lambda op, x, y, z: op(x, y, alpha=1e-9),
    "mul_": lambda op, x, y, z: op(x, 1.0),
    "addcdiv_": lambda op, x, y, z: op(x, y, z, value=1e-9),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=21)


def by_elements(name: str) -> Operation:
    """The op of ours on one tensor, in a loop over lists."""
    function = getattr(ag.Tensor if name.endswith("_") else ag, name)

    def loop(*args: Any, **options: Any) -> Sequence[Any]:
        rows = zip(*[arg if isinstance(arg, list) else itertools.repeat(arg) for arg in args], strict=False)
        return [function(*row, **options) for row in rows]

    return loop


def make_cases(lib: ModuleType, operation: Callable[[str], Operation], device: str, count: int) -> dict[str, Call]:
    """Case -> what to time, in a library with PyTorch's names; operation(name) works on lists."""
    rng = np.random.default_rng(8)
    shapes = list(itertools.islice(itertools.cycle(SHAPES), count))

    def numbers() -> list[Any]:
        return [lib.tensor(rng.uniform(0.5, 1.5, shape).astype(np.float32), device=device) for shape in shapes]

    lists, seeds = [numbers() for _ in range(3)], numbers()
    leaves = [[x.clone().requires_grad_() for x in group] for group in lists]

    def both(call: Callable[..., Sequence[Any]], op: Operation) -> list[Any]:
        outs = call(op, *leaves)
        inputs = [x for group in leaves for x in group]
        return [g for g in lib.autograd.grad(list(outs), inputs, seeds, allow_unused=True) if g is not None]

    calls: dict[str, Call] = {}
    for name, call in OPERATIONS.items():
        op = operation(name)
        calls[f"{name}, forward"] = lambda call=call, op=op: call(op, *lists)  # type: ignore[misc]
        calls[f"{name}, forward and backward"] = lambda call=call, op=op: both(call, op)  # type: ignore[misc]
    for name, call in IN_PLACE.items():
        op = operation(name)
        calls[name] = lambda call=call, op=op: call(op, *lists)  # type: ignore[misc]
    return calls


def run(args: argparse.Namespace) -> Report:
    """Time every case."""
    count = 7 if args.tiny else 100
    present, absent = load_peers(args.peers, PEERS, args.device)
    modules: dict[str, ModuleType] = {OURS: ag, LOOP: ag, **present}
    operations: dict[str, Callable[[str], Operation]] = {
        OURS: lambda name: getattr(ag.foreach, name), LOOP: by_elements,
        "torch": lambda name: getattr(present["torch"], f"_foreach_{name}"),
    }  # fmt: skip
    calls = {name: make_cases(lib, operations[name], args.device, count) for name, lib in modules.items()}
    title = f"Operations on {count} tensors, float32, {args.device}"
    report = Report(NAME, title, device_kind(args.device), {"tiny": args.tiny, "shapes": SHAPES}, absent, args.json)
    report.plan(calls[OURS])
    for case in calls[OURS]:
        with report.attempt(case):
            require_agreement({name: by_case[case]() for name, by_case in calls.items()}, 1e-5, case)
            contenders = [Contender(name, by_case[case], clock_for(modules[name], args.device))
                          for name, by_case in calls.items()]
            timings = interleave(contenders, args.repeats, sample_s=1e-4 if args.tiny else 5e-3)
            counts = {} if args.device == "cpu" else {OURS: {"launches": counting.count_ours(ag, calls[OURS][case])[1]}}
            report.add(case, timings, unit="us", counts=counts)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
