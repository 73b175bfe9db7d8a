"""Code from formulas on the CPU: native code, NumPy code, PyTorch; on arrays, one thread.

Activations and their gradients, the backward of a linear layer's bias and activation, second-order streams behind Tanh
with their gradients, and how long it takes to compile machine code and to load it from disk. Native code needs the
extra [native]; here it is compiled at the first call.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu.backend.formulas.native import disk_cache, switch
from autograd_gpu.core.declare.op import RAW, REGISTRY
from autograd_gpu.formulas import families

from .common import make_parser, require_agreement, run_workload
from .peers import load_peers
from .replayed import compiling_at_once
from .report import NUMPY_CODE, OURS, Report
from .timing import Call, Contender, host_clock, interleave

NAME = "formulas"
PEERS = ("torch",)
Calls = dict[str, Call]  # by contender


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return make_parser(NAME, PEERS, __doc__, repeats=15)


def numpy_clock(call: Call, count: int) -> float:
    """Seconds that `count` calls take without native code."""
    with switch.numpy_code_alone():
        return host_clock(call, count)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- cases -----------------------------------------------------------------------------------


ACTIVATIONS = (
    "silu", "silu_grad", "gelu", "gelu_grad", "mish", "hardswish", "relu_grad", "leaky_relu_grad", "sigmoid_grad",
)  # fmt: skip
# What else PyTorch's function takes, and its name where that is another one.
MORE: dict[str, tuple[Any, ...]] = {"relu_grad": (0.0,), "leaky_relu_grad": (0.01, False)}
OTHERS = {"relu_grad": "threshold_backward"}


def elementwise(torch: ModuleType | None, name: str, count: int, dtype: Any = np.float32) -> Calls:
    """An activation, or its gradient by the name with _grad."""
    arrays = [numbers(count, dtype=dtype, seed=seed) for seed in range(1 + name.endswith("_grad"))]
    calls: Calls = {OURS: lambda: getattr(RAW, name)(*arrays)}
    if torch:
        tensors = [torch.from_numpy(a) for a in arrays]
        theirs = getattr(torch.ops.aten, OTHERS.get(name, name.replace("_grad", "_backward")))
        calls["torch"] = lambda: theirs(*tensors, *MORE.get(name, ()))
    return calls


def bias_backward(torch: ModuleType | None, name: str, rows: int, columns: int) -> Calls:
    """The gradients of act(z + bias) for z and bias."""
    h, z, bias = numbers(rows, columns), numbers(rows, columns, seed=1), numbers(columns, seed=2)
    by_result = name == "tanh"
    saved = np.tanh(z) if by_result else z
    parameters: tuple[Any, ...] = ("none",) if name == "gelu" else ()
    forward = REGISTRY["smooth_grad"].forward
    calls: Calls = {
        OURS: lambda: forward(np, h, saved, None if by_result else bias, activation=name, parameters=parameters)
    }
    if torch:
        th, ts, tb = map(torch.from_numpy, (h, saved, bias))
        theirs = getattr(torch.ops.aten, f"{name}_backward")

        def backward() -> Any:
            dz = theirs(th, ts if by_result else ts + tb)
            return dz, dz.sum(0)

        calls["torch"] = backward
    return calls


def stream(torch: ModuleType | None, d: int, rows: int, columns: int, gradients: bool) -> Calls:
    """A stream of d tangents and all second ones behind Tanh, or its gradients for the result and the stream."""
    groups = tuple([((i, j),) for i in range(d) for j in range(i, d)])
    count = d + len(groups)
    y, t = np.tanh(numbers(rows, columns)), numbers(rows, count, columns, seed=1)
    g, op = numbers(rows, count, columns, seed=2), REGISTRY["activation_jet"]
    forward: Any = op.forward
    fused: Any = op.fused

    def ours() -> Any:
        if not gradients:
            return forward(np, y, t, None, activation="tanh", d=d, groups=groups, parameters=())
        return fused(RAW, g, (True, True, False), y, t, None, "tanh", (), d, groups)[:2]

    calls: Calls = {OURS: ours}
    if torch:
        ty, tt = (torch.from_numpy(a).requires_grad_(gradients) for a in (y, t))
        tg = torch.from_numpy(g)

        def composed() -> Any:
            f1 = 1 - ty * ty
            f2 = -2 * ty * f1
            pairs = [f2 * tt[:, i] * tt[:, j] + f1 * tt[:, d + k] for k, ((i, j),) in enumerate(groups)]
            return torch.stack([*[f1 * tt[:, i] for i in range(d)], *pairs], 1)

        out = composed()
        calls["torch"] = (
            (lambda: torch.autograd.grad(out, [ty, tt], tg, retain_graph=True)) if gradients else composed
        )
    return calls


def cases(torch: ModuleType | None, tiny: bool) -> dict[str, Callable[[], Calls]]:
    """Label -> what makes the calls."""
    made: dict[str, Callable[[], Calls]] = {}
    for count in (100, 1000) if tiny else (1000, 100_000):
        for name in ACTIVATIONS:
            made[f"{name}, {count:,}"] = lambda name=name, count=count: elementwise(torch, name, count)
    count, rows = (1000, 64) if tiny else (100_000, 4096)
    made[f"silu_grad, {count:,}, float16"] = lambda: elementwise(torch, "silu_grad", count, np.float16)
    for name in ("silu", "tanh", "gelu"):
        made[f"bias + {name}, backward, {rows} x 256"] = lambda name=name: bias_backward(torch, name, rows, 256)
    shape = (8, 16) if tiny else (256, 512)
    for d in (2, 3):
        for gradients in (False, True):
            label = f"stream behind Tanh, d = {d}{', gradients' * gradients}, {shape[0]} x {shape[1]}"
            made[label] = lambda d=d, gradients=gradients: stream(torch, d, *shape, gradients)
    return made


@contextmanager
def empty_cache() -> Iterator[None]:
    """Machine code is kept in a folder that is empty, and removed in the end."""
    name = "AUTOGRAD_GPU_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before


def machine_code() -> dict[str, Call]:
    """Case -> a call that compiles the machine code of silu_grad, or loads it from disk."""
    family = families()["silu"]
    ir = switch.ir_or_reason(family.program(((("h",), 1),), (), False), np.dtype(np.float32))
    new = itertools.count()

    def load() -> int | None:
        disk_cache.forget()
        return disk_cache.address(ir)

    return {
        "silu_grad, compiled and kept on disk": lambda: disk_cache.address(f"{ir}; {next(new)}\n"),
        "silu_grad, loaded from disk": load,
    }


def run(args: argparse.Namespace) -> Report:
    """Time every case, on one thread."""
    if args.device != "cpu":
        raise SystemExit("formulas measures code for the CPU: run it with --device cpu")
    present, absent = load_peers(args.peers, PEERS, args.device)
    torch = present.get("torch")
    made = cases(torch, args.tiny)
    config = {"tiny": args.tiny, "native code": switch.state()}
    report = Report(NAME, "Code from formulas on the CPU, one thread", "cpu", config, absent, args.json)
    loads = machine_code() if switch.is_installed() else {}
    report.plan([*made, *loads])
    ag.set_num_threads(1)
    if torch:
        torch.set_num_threads(1)
    for case, make in made.items():
        with report.attempt(case), compiling_at_once():
            calls = make()
            results = {name: call() for name, call in calls.items()}
            listed = {name: r if isinstance(r, list | tuple) else [r] for name, r in results.items()}
            require_agreement(listed, 2e-3 if "float16" in case else 1e-5, case)
            contenders = [Contender(name, call) for name, call in calls.items()]
            contenders.insert(1, Contender(NUMPY_CODE, calls[OURS], numpy_clock))
            report.add(case, interleave(contenders, args.repeats, sample_s=1e-4 if args.tiny else 5e-3), unit="us")
    for case, call in loads.items():
        with report.attempt(case), empty_cache():
            call()
            report.add(case, interleave([Contender(OURS, call)], args.repeats, sample_s=1e-4), unit="us")
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv)


if __name__ == "__main__":
    main()
