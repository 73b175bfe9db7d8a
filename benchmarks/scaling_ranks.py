"""One rank of the workload `scaling`: mpiexec -n N python -m benchmarks.scaling_ranks OUT [--torch] [--tiny] ...

Each rank keeps to one core and one thread. Rank 0 writes the results of all cases as JSON: for each contender counts,
and samples in seconds, the longest of the ranks. The libraries take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise, repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import func

from .common import require_agreement
from .report import OURS
from .timing import PAUSE_S, garbage_collector, settle

Call = Callable[[], Any]
CHECK_STEPS = 3


def keep_to_one_core(rank: int) -> None:
    """Each rank has a core of its own, as long as there are so many."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def agreed(value: float) -> float:
    """The largest value of the ranks."""
    largest = ag.tensor([value], dtype=ag.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return float(largest.item())


def clock(call: Call, count: int) -> float:
    """Seconds of `count` calls on the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return agreed(time.perf_counter() - start)


def in_turns(calls: dict[str, Call], repeats: int, sample_s: float) -> dict[str, dict[str, Any]]:
    """Samples of each call, taken in turns, as `timing.interleave` takes them in one process."""
    counts = {}
    with garbage_collector():
        for name, call in calls.items():
            clock(call, 3)
            counts[name] = max(1, round(sample_s / clock(call, 1)))
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(repeats):
            for name, call in calls.items():
                settle(PAUSE_S)
                clock(call, 1)
                samples[name].append(clock(call, counts[name]) / counts[name])
    return {name: {"samples_s": samples[name], "calls": counts[name], "counts": {}} for name in calls}


# ---- training ----------------------------------------------------------------------------------


class Training:
    """DistributedDataParallel and Adam in a library with PyTorch's names, on data of this rank."""

    def __init__(self, lib: ModuleType, sizes: Sequence[int], batch: int, activation: str) -> None:
        self.lib, rng = lib, np.random.default_rng(dist.get_rank())
        layers: list[Any] = []
        weights = np.random.default_rng(77)
        for before, after in pairwise(sizes):
            layers += [lib.nn.Linear(before, after), getattr(lib.nn, activation)()]
            for parameter in layers[-2].parameters():
                value = weights.normal(0, before**-0.5, tuple(parameter.shape)).astype(np.float32)
                with lib.no_grad():
                    parameter.copy_(lib.tensor(value))
        self.net = lib.nn.parallel.DistributedDataParallel(lib.nn.Sequential(*layers[:-1]))
        self.optimizer = lib.optim.Adam(self.net.parameters(), lr=1e-3)
        self.x = lib.tensor(rng.normal(size=(batch, sizes[0])).astype(np.float32))
        self.y = lib.tensor(rng.integers(0, sizes[-1], batch))

    def loss(self) -> Any:
        return self.lib.nn.functional.cross_entropy(self.net(self.x), self.y)

    def step(self, syncs: bool = True) -> None:
        self.optimizer.zero_grad()
        with nullcontext() if syncs else self.net.no_sync():
            self.loss().backward()
        self.optimizer.step()

    def alone(self) -> None:
        """A step without communication."""
        self.step(syncs=False)


class PINN(Training):
    """The loss has second derivatives by the points: u_xx + u_yy = 1, and u = 0 on the average."""

    def loss(self) -> Any:
        points = self.x.detach().requires_grad_()
        u = self.net(points)
        (first,) = self.lib.autograd.grad(u.sum(), points, create_graph=True)
        seconds = [self.lib.autograd.grad(first[:, i].sum(), points, create_graph=True)[0][:, i] for i in (0, 1)]
        return ((seconds[0] + seconds[1] - 1) ** 2).mean() + (u**2).mean()


def trainings(tiny: bool) -> dict[str, Callable[[ModuleType], Training]]:
    """By the names of cases."""
    batch, hidden, width = (8, 16, 8) if tiny else (64, 256, 64)
    return {
        f"MLP 784-{hidden}-{hidden}-10, batch {batch}":
            lambda lib: Training(lib, (784, hidden, hidden, 10), batch, "ReLU"),
        f"PINN 2-3x{width}-1, batch {batch}": lambda lib: PINN(lib, (2, *[width] * 3, 1), batch, "Tanh"),
    }  # fmt: skip


class Delayed:
    """A request that is done at `ready`, and not before."""

    source = None

    def __init__(self, request: Any, ready: float) -> None:
        self.request, self.ready = request, ready

    def done(self) -> bool:
        return bool(self.request.done()) and time.perf_counter() >= self.ready

    def join(self) -> None:
        self.request.join()


class CorelessLink:
    """An engine whose all-reduces take their bytes over RATE, one after the other, in which no core has to work.

    So as a network adapter or NCCL moves them; on the CPU alone it is the core that would compute meanwhile.
    """

    RATE = 1e9

    def __init__(self, engine: Any) -> None:
        self.engine, self.free = engine, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def all_reduce(self, array: Any, op: Any) -> Delayed:
        self.free = max(self.free, time.perf_counter()) + array.nbytes / self.RATE
        return Delayed(self.engine.all_reduce(array, op), self.free)


@contextmanager
def coreless() -> Iterator[None]:
    """A context in which all-reduces go over a CorelessLink."""
    world = dist.GroupMember.WORLD
    engine = world.engine
    world.engine = CorelessLink(engine)
    try:
        yield
    finally:
        world.engine = engine


def hidden(whole: float, communication: float, alone: float) -> float:
    """The share of the time of communication that a step does not take longer than without it."""
    return round(min(max((alone + communication - whole) / communication, 0.0), 1.0), 2)


def train(
    make: Callable[[ModuleType], Training], libs: dict[str, ModuleType], args: argparse.Namespace
) -> dict[str, Any]:
    """Steps of each library; for ours what it sends, and how much of that it hides behind the backward pass."""
    made = {name: make(lib) for name, lib in libs.items()}
    for _ in range(CHECK_STEPS):
        for training in made.values():
            training.step()
    require_agreement({name: list(training.net.parameters()) for name, training in made.items()}, 1e-4, "parameters")
    ours = made[OURS]
    engine = dist.GroupMember.WORLD.engine
    sent, calls = engine.sent, engine.calls
    ours.step()
    sent, calls = engine.sent - sent, engine.calls - calls
    buffers = [bucket.buffer for bucket in ours.net.reducer.buckets]
    size, total = dist.get_world_size(), sum(buffer.nbytes for buffer in buffers)
    steps: dict[str, Call] = {name: training.step for name, training in made.items()}
    parts: dict[str, Call] = {"communication alone": lambda: [dist.all_reduce(buffer) for buffer in buffers],
                              "step alone": ours.alone}  # fmt: skip
    results = in_turns({**steps, **parts}, args.repeats, args.sample_s)
    times = [statistics.median(results[name]["samples_s"]) for name in (OURS, *parts)]
    without_cores = times
    if size > 1:
        with coreless():
            again = in_turns({OURS: ours.step, **parts}, args.repeats, args.sample_s)
        without_cores = [statistics.median(again[name]["samples_s"]) for name in (OURS, *parts)]
    results[OURS]["counts"] = {
        "bytes sent": int(sent), "ring bound": 2 * (size - 1) * total // size, "collectives": calls,
        "bytes begun early": sum(buffer.nbytes for buffer in buffers[:-1]),
        "gradient bytes": total,
        "step alone": times[-1],
        "overlap": hidden(*times), "overlap without cores": hidden(*without_cores),
    }  # fmt: skip
    return results


# ---- all-reduce --------------------------------------------------------------------------------


def reductions(tiny: bool) -> dict[str, int]:
    """The bytes of an all-reduce, by the names of cases."""
    sizes = {"4 KiB": 1 << 12, "64 KiB": 1 << 16, "1 MiB": 1 << 20, "16 MiB": 1 << 24}
    if tiny:
        sizes = {"4 KiB": 1 << 12, "256 KiB": 1 << 18}
    return {f"all-reduce of {size}": count for size, count in sizes.items()}


def reduce(size: int, libs: dict[str, ModuleType], args: argparse.Namespace) -> dict[str, Any]:
    """All-reduce of float32 zeros, which stay finite."""
    tensors = {name: lib.zeros(size // 4) for name, lib in libs.items()}
    results = in_turns({name: lambda lib=lib, x=tensors[name]: lib.distributed.all_reduce(x)  # type: ignore[misc]
                        for name, lib in libs.items()}, args.repeats, args.sample_s)  # fmt: skip
    engine = dist.GroupMember.WORLD.engine
    before = engine.sent
    dist.all_reduce(tensors[OURS])
    ranks = dist.get_world_size()
    results[OURS]["counts"] = {"bytes sent": engine.sent - before, "ring bound": 2 * (ranks - 1) * size // ranks}
    return results


# ---- Hessians ----------------------------------------------------------------------------------


def coupled(x: Any) -> Any:
    """A function of many inputs that are all coupled."""
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() + x.sum().sin() * (x**3).sum()


def hessian_sizes(tiny: bool) -> tuple[int, int, int]:
    """The rows of a batch, the width of networks, and the inputs of functions of many."""
    return (16, 8, 16) if tiny else (1000, 128, 400)


def hessian_names(tiny: bool) -> tuple[str, str, str]:
    """The names of the cases of `hessians`."""
    rows, width, inputs = hessian_sizes(tiny)
    return (f"vmap(hessian), 2-2x{width}-1, {rows} rows", f"hessian of {inputs} inputs",
            f"laplacian, {inputs}-2x{2 * width}-1")  # fmt: skip


def network(inputs: int, width: int) -> Any:
    """A network of two hidden layers with one output."""
    nn = ag.nn
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def names(tiny: bool, ranks: int) -> list[str]:
    """Those of all cases."""
    return [*trainings(tiny), *(reductions(tiny) if ranks > 1 else ()), *hessian_names(tiny)]


def hessians(tiny: bool) -> dict[str, Call]:
    """By the names of cases: shared by all ranks, gathered."""
    rows, width, inputs = hessian_sizes(tiny)
    ag.manual_seed(0)
    small, large = network(2, width), network(inputs, 2 * width)
    x, z, world = ag.randn(rows, 2), ag.randn(inputs), dist.GroupMember.WORLD
    alone = func.vmap(func.hessian(small))(x), func.hessian(coupled)(z), func.laplacian(large)(z)
    shared = [
        ag.no_grad()(lambda: func.vmap(func.hessian(small), group=world)(x)),
        ag.no_grad()(lambda: func.hessian(coupled, group=world)(z)),
        ag.no_grad()(lambda: func.laplacian(large, group=world)(z)),
    ]
    require_agreement({"one process": alone, "ranks": [call() for call in shared]}, 1e-4, "Hessians")
    return dict(zip(hessian_names(tiny), shared, strict=True))


def parser() -> argparse.ArgumentParser:
    """The command line of a rank."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling_ranks", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--sample-s", type=float, default=0.05)
    parser.add_argument("--torch", action="store_true", help="beside PyTorch on gloo")
    parser.add_argument("--tiny", action="store_true")
    return parser


def libraries(with_torch: bool) -> dict[str, ModuleType]:
    """Ours, and PyTorch with a process group over gloo."""
    libs: dict[str, ModuleType] = {OURS: ag}
    if with_torch:
        import torch

        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="Grad strides do not match")  # the last layer has one row
        names = [tempfile.mktemp(prefix="gloo-")]
        dist.broadcast_object_list(names)
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{names[0]}", rank=dist.get_rank(), world_size=dist.get_world_size()
        )
        libs["torch"] = torch
    return libs


def main() -> None:
    args = parser().parse_args()
    dist.init_process_group(timeout=120.0)
    keep_to_one_core(dist.get_rank())
    libs = libraries(args.torch)
    results = {name: train(make, libs, args) for name, make in trainings(args.tiny).items()}
    if dist.get_world_size() > 1:
        for name, size in reductions(args.tiny).items():
            results[name] = reduce(size, libs, args)
    for name, call in hessians(args.tiny).items():
        results[name] = in_turns({OURS: call}, args.repeats, args.sample_s)
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps(results))
    dist.barrier()


if __name__ == "__main__":
    main()
