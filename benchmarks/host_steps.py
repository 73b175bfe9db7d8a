"""The steps of the workload `host_time`, counted and timed in a process whose CuPy computes nothing.

host_time.py starts it; for each step it prints a line of JSON: samples in seconds, counts, or an error.

    launches     kernels and products that CuPy and we launch, as the stand-in for CuPy counts them
    allocations  requests to CuPy's pool; `cudaMalloc` those that the pool had to hand on to the device
    to device, to host, waits     copies, and calls in which the host waits for the device
    calls        calls that the package's Python code makes and receives, which do not depend on the machine
    us, package  the part of the median time that is not spent in the stand-in, estimated from a profile

Times are those of the thread on the CPU, which nobody else's processes lengthen: nothing here waits for a device.
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import repeat
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import models, optimizer_step, pinn, train_mlp
from .graphed import graphed
from .hessian_calls import Problem, by_loop, by_transform, eager_call
from .report import OURS
from .saved_memory import Run
from .timing import Call, Contender, interleave

WARM = 5  # steps until everything is compiled and every cache is filled
COUNTED = 5  # of these the most counts
PROFILED_S = 0.2
DEVICE = "cuda"
HEADLINE = [2, *[512] * 6, 3]  # of benchmarks/hessian.py
POINTS = 10_000
LAYERS, WIDTH, BATCH = 20, 256, 64  # behind hooks on what is saved; 64 KiB each, which is worth offloading
PACKAGE = str(Path(ag.__file__).parent)
GENERATED = "<generated"  # the files of the functions that the package writes itself


def mlp(optimizer: str, batch: int) -> Call:
    """A training step of 784-256-256-10."""
    return train_mlp.eager_step(ag, models.make_weights([784, 256, 256, 10]), batch, optimizer, DEVICE)


def compiled_mlp(optimizer: str, batch: int) -> Call:
    """The same step by ag.compile."""
    weights = models.make_weights([784, 256, 256, 10])
    return train_mlp.in_turn(ag, ag.compile(train_mlp.step_on(ag, weights, optimizer, DEVICE)), batch, DEVICE)


def pinn_step(wrap: Callable[[Any], Any]) -> Call:
    """The step of benchmarks/pinn.py, 256 points, 2-64-64-1."""
    return pinn.eager_step(ag, models.make_weights([2, 64, 64, 1]), 256, DEVICE, wrap)


def captured_mlp(optimizer: str, batch: int) -> Call:
    """The same step as a CUDA graph: inputs and the numbers of the step are copied in, the loss out; and a schedule."""
    weights = models.make_weights([784, 256, 256, 10])
    step, update = train_mlp.step_and_optimizer(ag, weights, optimizer, DEVICE, capturable=True)
    replay = train_mlp.in_turn(ag, graphed(ag, step), batch, DEVICE)
    schedule = ag.optim.lr_scheduler.CosineAnnealingLR(update, T_max=10**9)

    def call() -> None:
        replay()
        schedule.step()

    return call


def hessian(loop: bool, backward: bool) -> Call:
    """The Hessian of the headline network, or training on it."""
    x = np.zeros((POINTS, HEADLINE[0]), np.float32)
    problem = Problem(models.make_weights(HEADLINE), x, "Tanh", "hessian", backward, DEVICE)
    by = by_loop("hessian", create_graph=backward) if loop else by_transform("hessian", "auto")
    return eager_call(ag, problem, by, is_loop=loop)


def behind_hooks(hooks: Callable[[], Any]) -> Call:
    """Forward and backward of 20 layers with Tanh between them."""
    net = models.sequential(ag, models.make_weights([WIDTH] * (LAYERS + 1)), "Tanh", DEVICE)
    return Run(ag, net, ag.zeros(BATCH, WIDTH, device=DEVICE), "", hooks).step


def adam() -> Call:
    """A step of Adam for 100 parameters of 64 by 64."""
    return optimizer_step.make(ag, [(64, 64)] * 100, "Adam", DEVICE)[0].step


def add_lists() -> Call:
    """The sum of two lists of 100 tensors of 64 by 64, in the memory of the first."""
    target, other = ([ag.ones(64, 64, device=DEVICE) for _ in range(100)] for _ in range(2))
    return lambda: ag.foreach.add_(target, other)


def save_on_cpu(pin_memory: bool) -> Callable[[], Any]:
    return lambda: ag.autograd.graph.save_on_cpu(pin_memory=pin_memory)


STEPS: dict[str, Callable[[], Call]] = {
    **{f"MLP, {optimizer}, batch {batch}": lambda optimizer=optimizer, batch=batch: mlp(optimizer, batch)
       for optimizer in ("SGD", "Adam") for batch in (8, 128)},
    "MLP, Adam, batch 8, compiled": lambda: compiled_mlp("Adam", 8),
    "MLP, Adam, batch 8, graph and schedule": lambda: captured_mlp("Adam", 8),
    "PINN": lambda: pinn_step(lambda step: step),
    "PINN, compiled": lambda: pinn_step(ag.compile),
    "Hessian, loop of grad": lambda: hessian(True, False),
    "Hessian, loop of grad, with backward": lambda: hessian(True, True),
    "Hessian, vmap(hessian)": lambda: hessian(False, False),
    "Hessian, vmap(hessian), with backward": lambda: hessian(False, True),
    "20 layers": lambda: behind_hooks(nullcontext),
    "20 layers, save_on_cpu": lambda: behind_hooks(save_on_cpu(False)),
    "20 layers, save_on_cpu, pinned": lambda: behind_hooks(save_on_cpu(True)),
    "Adam, 100 parameters": adam,
    "foreach.add_, 100 tensors": add_lists,
}  # fmt: skip


# ---- counts ----------------------------------------------------------------------------------


def counts_of(step: Call) -> dict[str, int]:
    """The most of a few steps."""
    gc.disable()  # no finalizer of a cycle among the counted calls
    try:
        several = [count(step) for _ in range(COUNTED)]
    finally:
        gc.enable()
    return {name: max(counts[name] for counts in several) for name in several[0]}


def count(step: Call) -> dict[str, int]:
    """What one step asks of the device, and the calls of the package in another."""
    from cupy._emulation import counted  # the stand-in's; there is no other CuPy in this process

    with counted() as asked:
        step()
    return {
        "launches": asked.total, "allocations": asked.allocations, "cudaMalloc": asked.device_allocations,
        "to device": asked.to_device, "to host": asked.to_host, "waits": asked.waits, "calls": calls_of(step),
    }  # fmt: skip


def calls_of(step: Call) -> int:
    """How often the package's functions are called, and call into C."""
    calls = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call") and is_ours(frame.f_code)

    sys.setprofile(see)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith((PACKAGE, GENERATED))


# ---- time ------------------------------------------------------------------------------------


def thread_clock(call: Call, calls: int) -> float:
    """Seconds of the CPU that so many calls take in this thread."""
    start = time.thread_time()
    for _ in repeat(None, calls):
        call()
    return time.thread_time() - start


def share_of_package(step: Call, seconds: float) -> float:
    """The part of the time of a step that is not spent in the stand-in for CuPy."""
    import cupy

    stand_in = str(Path(cupy.__file__).parents[1])
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    for _ in range(max(1, round(PROFILED_S / seconds))):
        step()
    profile.disable()
    whole = elsewhere = 0.0
    for (file, *_), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        whole += own
        if file.startswith(stand_in):
            elsewhere += sum(edge[3] for caller, edge in callers.items() if not caller[0].startswith(stand_in))
    return 1 - elsewhere / whole


def measured(names: list[str], repeats: int, sample_s: float) -> Iterator[dict[str, Any]]:
    """A record for each step; without repeats it is counted, and not timed."""
    for name in names:
        try:
            step = STEPS[name]()
            for _ in range(WARM):
                step()
            gc.collect()
            counts = counts_of(step)
            record: dict[str, Any] = {"case": name, "counts": counts}
            if repeats:
                contender = Contender(OURS, step, thread_clock)
                timing = interleave([contender], repeats, sample_s=sample_s, pause_s=0.0)[OURS]
                counts["us, package"] = round(1e6 * timing.median * share_of_package(step, timing.median))
                record |= {"samples": timing.samples, "calls": timing.calls}
            yield record
        except Exception as error:
            traceback.print_exc()
            yield {"case": name, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Called with the names of steps, the repeats and the seconds of a sample, as one JSON list."""
    for record in measured(*json.loads(sys.argv[1])):
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
