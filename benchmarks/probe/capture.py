"""Stream capture: which work can be recorded, and whether a replay does what the calls do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autograd_gpu.backend import kernels
from autograd_gpu.backend.cuda import cublas
from autograd_gpu.backend.optimizers.formulas import sgd

from .table import FLOATS, Found, Lab, check, difference

SCALE = """extern "C" __global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 3.0f;
}"""
SIDE, REPLAYS, THREADS = 128, 3, 256
MOMENTUM = {"sign": 1.0, "decay": 0.0, "lr": 0.5, "momentum": 0.9, "kept": 0.9, "damped": 1.0, "nesterov": 0.0}
STEP = sgd.on("p", "g", "momentum_buffer")


def captured(stream: Any, work: Callable[[], Any]) -> Any:
    """The graph of what `work` puts on `stream`. An error inside ends the capture."""
    with stream:
        stream.begin_capture()
        try:
            work()
        except BaseException:
            _abandon(stream)
            raise
        return stream.end_capture()


def _abandon(stream: Any) -> None:
    try:
        stream.end_capture()
    except Exception as error:  # CUDA calls the capture invalid, which is what it should be
        print(f"the capture was given up: {error}", flush=True)


def replays(lab: Lab, stream: Any, graph: Any, eager: Callable[[], Any], inputs: list[Any], out: Any) -> list[bool]:
    """Whether replays on new inputs, and the calls themselves, leave the same bits in `out`."""
    same = []
    for _ in range(REPLAYS):
        for array in inputs:
            array[...] = lab.normal(*array.shape, dtype=array.dtype)
        out.fill(0)
        lab.wait()
        graph.launch(stream)
        stream.synchronize()
        replayed = out.get()
        out.fill(0)
        lab.wait()
        with stream:
            eager()
        stream.synchronize()
        same.append(bool((replayed.view(np.uint8) == out.get().view(np.uint8)).all() and replayed.astype(float).any()))
    return same


@check("capture of a ufunc and a RawKernel", 1, 7, captures=True)
def ufunc_and_kernel(lab: Lab) -> Found:
    cp, stream = lab.cp, lab.cp.cuda.Stream(non_blocking=True)
    a, b, out = lab.normal(SIDE, SIDE), lab.normal(SIDE, SIDE), cp.empty((SIDE, SIDE), np.float32)
    scale = cp.RawKernel(SCALE, "scale")

    def work() -> None:
        cp.add(a, b, out=out)
        scale((-(-out.size // THREADS),), (THREADS,), (out, np.int32(out.size)))

    lab.wait()
    with stream:
        work()  # compiles, which a capture should not have to
    stream.synchronize()
    same = replays(lab, stream, captured(stream, work), work, [a, b], out)
    return {"ok": all(same), "replay equal to eager": same}


@check("capture of ufunc, RawKernel and cuBLAS by ctypes", 1, seconds=10.0, captures=True)
def with_cublas(lab: Lab) -> Found:
    """A ufunc, a product, a cast and a RawKernel, of each kind of number; on a stream that has multiplied, or not."""
    cp, scale = lab.cp, lab.cp.RawKernel(SCALE, "scale")
    outcome: Found = {"replay equal to eager": {}, "largest error": {}}
    for kind in (*FLOATS, "TF32"):
        dtype = FLOATS.get(kind, FLOATS["float32"])
        a, b = lab.normal(SIDE, SIDE, dtype=dtype), lab.normal(SIDE, SIDE, dtype=dtype)
        total, product, out = cp.empty_like(a), cp.empty_like(a), cp.empty((SIDE, SIDE), np.float32)
        gemm = partial(cublas.gemm, precision="high" if kind == "TF32" else "highest")
        work = partial(_three, cp, scale, gemm, a, b, total, product, out)
        work()  # cuBLAS loads its kernels when they are first used
        lab.wait()
        for name in (kind, f"{kind}, first product of the stream"):
            stream = cp.cuda.Stream(non_blocking=True)
            if name == kind:
                with stream:
                    work()
                stream.synchronize()
            graph = captured(stream, work)
            outcome["replay equal to eager"][name] = replays(lab, stream, graph, work, [a, b], out)
        exact = 3 * (total.get().astype(float) @ b.get().astype(float))
        outcome["largest error"][kind] = float(np.abs(out.get() - exact).max() / np.abs(exact).max())
    outcome["ok"] = all(all(same) for same in outcome["replay equal to eager"].values())
    return outcome


def _three(cp: Any, scale: Any, gemm: Any, a: Any, b: Any, total: Any, product: Any, out: Any) -> None:
    """A ufunc, a product, a cast, a kernel."""
    cp.add(a, b, out=total)
    gemm(total, b, product)
    cp.copyto(out, product, casting="unsafe")
    scale((-(-out.size // THREADS),), (THREADS,), (out, np.int32(out.size)))


@check("capture of an optimizer step", 19, captures=True)
def optimizer_step(lab: Lab) -> Found:
    """A launch with 4 KB of parameters, the addresses of a hundred parameters, gradients and buffers."""
    cp, stream = lab.cp, lab.cp.cuda.Stream(non_blocking=True)
    out = lab.normal(lab.size(100, 4), SIDE)
    p, b, g = list(out), list(cp.empty_like(out)), [lab.normal(SIDE) for _ in out]

    def work() -> None:
        for array in (*p, *b):
            array.fill(1)
        kernels.over(kernels.update_of(STEP.general), kernels.tensor_lists([p, b], [g]), MOMENTUM)

    lab.wait()
    with stream:
        work()
    stream.synchronize()
    same = replays(lab, stream, captured(stream, work), work, g, out)
    exact = 1 - 0.5 * (0.9 + np.stack([array.get() for array in g]))
    error = float(np.abs(out.get() - exact).max())
    return {"ok": all(same) and error < 1e-5, "replay equal to eager": same, "largest error": error}


TOLERANCE = 1e-5  # of float32 sums up to some thousands, relative to the largest: a step's exponentials are not NumPy's


@check("private pool under capture", 7, seconds=10.0, captures=True)
def private_pool(lab: Lab) -> Found:
    """A captured step, whose memory comes from a pool of its own, and unrelated allocations: addresses and results.

    In one step all arrays live on after the capture, in the other memory is freed, and used again, inside of it.
    """
    steps = {step.__name__: _in_private_pool(lab, step) for step in (all_kept, freed_and_reused)}
    good = all(all(one["replay is right"]) and one["others are intact"] for one in steps.values())
    good = good and not any(one["unrelated arrays in the graph's memory"] for one in steps.values())
    stable = all(one["same addresses before, in and after the capture"] for one in steps.values())
    reused = steps["freed_and_reused"]["memory used twice inside"]
    return {"ok": good and lab.judge(stable and reused), **steps}


def all_kept(cp: Any, x: Any) -> tuple[list[Any], list[int]]:
    """exp(2x) + 2x, last of the arrays that stay alive, and the addresses in turn."""
    y = cp.multiply(x, 2)
    z = cp.exp(y)
    kept = [y, z, z + y]
    return kept, [array.data.ptr for array in kept]


def freed_and_reused(cp: Any, x: Any) -> tuple[list[Any], list[int]]:
    """The same; the block of the first product goes back to the pool and is that of the second."""
    y = cp.multiply(x, 2)
    addresses = [y.data.ptr]
    z = cp.exp(y)
    del y
    y = cp.multiply(x, 2)
    out = z + y
    return [out], [*addresses, z.data.ptr, y.data.ptr, out.data.ptr]


def _in_private_pool(lab: Lab, step: Callable[[Any, Any], tuple[list[Any], list[int]]]) -> Found:
    cp, stream, pool = lab.cp, lab.cp.cuda.Stream(non_blocking=True), lab.cp.cuda.MemoryPool()
    x, kept, addresses = lab.normal(SIDE, SIDE), [], []

    def run() -> None:
        arrays, places = step(cp, x)
        kept.append(arrays)
        addresses.append(places)

    def in_pool(work: Callable[[], Any]) -> Any:
        with stream, cp.cuda.using_allocator(pool.malloc):
            return work()

    lab.wait()
    in_pool(run)  # the pool grows before the capture
    stream.synchronize()
    kept.clear()
    graph = in_pool(lambda: captured(stream, run))
    others = [cp.full(x.shape, number, np.float32) for number in range(20)]
    inside = sum(abs(other.data.ptr - address) < x.nbytes for other in others for address in addresses[-1])
    errors = [_error(lab, stream, graph, x, kept[0][-1]) for _ in range(REPLAYS)]
    intact = all(bool((other.get() == number).all()) for number, other in enumerate(others))
    kept.clear()
    in_pool(run)
    stream.synchronize()
    return {
        "replay is right": [error < TOLERANCE for error in errors], "largest error": max(errors),
        "others are intact": intact, "unrelated arrays in the graph's memory": inside,
        "memory used twice inside": len(set(addresses[1])) < len(addresses[1]),
        "same addresses before, in and after the capture": all(places == addresses[0] for places in addresses),
        "pool bytes": pool.total_bytes(),
    }  # fmt: skip


def _error(lab: Lab, stream: Any, graph: Any, x: Any, out: Any) -> float:
    """The largest error of a replay on new numbers, relative to the largest number of exp(2x) + 2x."""
    x[...] = lab.normal(*x.shape)
    lab.wait()
    graph.launch(stream)
    stream.synchronize()
    numbers = x.get().astype(float)
    return difference(out, np.exp(2 * numbers) + 2 * numbers)


@check("copies as nodes of a graph", 7, captures=True)
def copies(lab: Lab) -> Found:
    """memcpyAsync to page-locked memory and back, captured, and replayed on other numbers."""
    cp, stream = lab.cp, lab.cp.cuda.Stream(non_blocking=True)
    runtime, source = cp.cuda.runtime, lab.normal(SIDE, SIDE)
    target, pinned = cp.zeros_like(source), cp.cuda.PinnedMemory(source.nbytes)

    def work() -> None:
        runtime.memcpyAsync(pinned.ptr, source.data.ptr, source.nbytes, runtime.memcpyDeviceToHost, stream.ptr)
        runtime.memcpyAsync(target.data.ptr, pinned.ptr, source.nbytes, runtime.memcpyHostToDevice, stream.ptr)

    lab.wait()
    graph = captured(stream, work)
    same = replays(lab, stream, graph, work, [source], target)
    right = bool((target.get() == source.get()).all())
    return {"ok": all(same) and right, "replay equal to eager": same, "copied": right}
