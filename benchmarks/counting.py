"""Counts that do not depend on the machine: matrix products by shape, operator calls, peak bytes."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from autograd_gpu import cuda
from autograd_gpu.backend.cpu import pool

from .timing import Call

Shape = tuple[int, ...]  # (m, k, n), batched (b, m, k, n)


def count_ours(ag: ModuleType, call: Call) -> tuple[Counter[Shape], int]:
    """Products by shape and kernel launches (on the CPU there are none) of one call, from ag.profiler."""
    with ag.profiler.count() as counted:
        call()
    return Counter(counted.matmuls), sum(counted.launches.values())


def counts_of_ours(ag: ModuleType, call: Call, device: str) -> dict[str, int]:
    """The products of one call, and on CUDA its launches, as a report has them."""
    products, launches = count_ours(ag, call)
    return {"products": products.total()} | ({} if device == "cpu" else {"launches": launches})


def count_torch(torch: ModuleType, call: Call) -> tuple[Counter[Shape], int]:
    """Products by shape and ATen calls of one call, seen below autograd and torch.func."""
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    operands = {
        aten.mm.default: slice(0, 2),
        aten.bmm.default: slice(0, 2),
        aten.addmm.default: slice(1, 3),
        aten.baddbmm.default: slice(1, 3),
    }
    products: Counter[Shape] = Counter()
    calls = 0

    class CountingMode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal calls
            calls += 1
            if func in operands:
                a, b = args[operands[func]]
                products[(*a.shape, b.shape[-1])] += 1  # (m, k) @ (k, n)
            return func(*args, **(kwargs or {}))

    with CountingMode():
        call()
    return products, calls


def hidden_products(products: Counter[Shape], batch: int, hidden: int) -> int:
    """How many products of batch x hidden x hidden the given ones amount to.

    Two of (m, k, n) must be `hidden`; the third, times the batch of a bmm, is counted in units of
    `batch` rows: one product with 3 * batch rows does the work of three.
    """
    if batch == hidden:
        raise ValueError("hidden_products needs batch != hidden to tell rows from columns")
    total = 0
    for shape, times in products.items():
        sides = list(shape[-3:])
        if sides.count(hidden) < 2:
            continue
        sides.remove(hidden)
        sides.remove(hidden)
        rows = sides[0] * (shape[0] if len(shape) == 4 else 1)
        total += times * (rows // batch)
    return total


def peak_bytes(device: str, call: Call) -> int:
    """The most bytes that one of OUR calls needed at a time, beyond what was held before.

    On the CPU the bytes of arrays, on CUDA what CuPy's pool had to take from the device. NumPy reports to
    tracemalloc what it allocates, but not what our pool hands out again: the pool keeps nothing meanwhile,
    so that every array is a fresh one and each block is given back when its last array dies.
    """
    if device != "cpu":
        import cupy

        device_pool = cupy.get_default_memory_pool()
        gc.collect()
        device_pool.free_all_blocks()
        before = device_pool.total_bytes()
        call()
        return device_pool.total_bytes() - before
    with _traced():
        call()
        return tracemalloc.get_traced_memory()[1]


def held_bytes(device: str, call: Call) -> int:
    """The bytes of arrays that live as long as what one of OUR calls answers, such as the graph behind a loss."""
    if device != "cpu":
        import cupy

        device_pool = cupy.get_default_memory_pool()
        gc.collect()
        cuda.synchronize()  # what is being copied to the host is held until it is there
        before = device_pool.used_bytes()
        answer = call()
        cuda.synchronize()
        held = device_pool.used_bytes() - before
    else:
        with _traced():
            answer = call()
            of_arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
            held = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([of_arrays]).traces)
    del answer
    return int(held)


@contextmanager
def _traced() -> Iterator[None]:
    """tracemalloc sees every array of ours."""
    kept, pool.MAX_FREE = pool.MAX_FREE, 0
    pool.release()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        pool.MAX_FREE = kept
