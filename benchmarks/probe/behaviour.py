"""What CuPy does, where the project relies on its source: ufuncs on tensors, overlaps, launches, errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu.backend.cuda import memory_stats

from .capture import captured
from .table import Found, Lab, check
from .timing import host_us

# Kernels that tests/cuda_emu/test_standin_launches.py counts, of arrays x, y of (4, 6), a mask and numbers 0 to 3.
LAUNCHES = {
    "x + y": 1, "x * 2 + y": 2, "cp.add(x, x[:1], out=x)": 2, "x.astype('float16')": 1, "cp.ascontiguousarray(x.T)": 1,
    "cp.zeros((3, 3))": 1, "x.sum()": 1, "x.T.sum()": 2, "cp.sum(x, axis=1, out=x[:, 0])": 2, "x.mean(axis=1)": 2,
    "x.mean(axis=0)": 1, "x.var(axis=1)": 4, "x.argmax()": 2, "cp.where(mask, x, y)": 1, "cp.where(x, x, y)": 2,
    "cp.concatenate([x, y, x])": 3, "cp.stack([x] * 8)": 8, "x[numbers, numbers]": 4,
    "cp.take_along_axis(x, numbers[:, None], 1)": 5, "x ** 2": 1,
}  # fmt: skip
# Writes of numbers that are read, too; whether CuPy copies them first. In the others a memcpy, or a kernel that takes
# indices, reads while it writes.
OVERLAPS = {"y[1:] = y[:-1]": False, "y[i] = y[1:]": False, "y[1:] += y[:-1]": True,
            "y.reshape(-1, 8)[:, 1:] = y.reshape(-1, 8)[:, :-1]": True, "np.multiply(y[:-1], 2, out=y[1:])": True}
WORK_NODES = {0: "kernel", 1: "memcpy", 2: "memset"}  # of CUgraphNodeType


@check("ufuncs on tensors", 12)
def override(lab: Lab) -> Found:
    """array * tensor and cupy.sin(tensor) are recorded."""
    cp, x = lab.cp, ag.tensor(lab.normal(3), requires_grad=True)
    array, outcomes = lab.normal(3), {}
    calls: dict[str, Callable[[], Any]] = {
        "array * tensor": lambda: array * x,
        "cupy.multiply": lambda: cp.multiply(array, x),
        "cupy.sin": lambda: cp.sin(x),
        "array < tensor": lambda: array < x,
    }
    for name, call in calls.items():
        try:
            out = call()
            outcomes[name] = type(out).__name__ + (", recorded" if getattr(out, "requires_grad", False) else "")
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
    good = all(outcomes[name] == "Tensor, recorded" for name in list(calls)[:3])
    return {"ok": good and outcomes["array < tensor"] == "Tensor", "found": outcomes}


@check("overlapping operands", 17)
def overlapping(lab: Lab) -> Found:
    """What NumPy does, which copies first: CuPy, where we rely on it, and our tensors everywhere."""
    agrees: dict[str, dict[str, bool]] = {}
    for name, copied in OVERLAPS.items():
        size = lab.size(1 << 20, 1000)
        host = np.arange(size, dtype=np.float32) % 977
        expected, numbers = host.copy(), np.arange(size - 1)
        exec(name, {"np": np, "y": expected, "i": numbers})
        y, i = lab.cp.asarray(host), lab.cp.asarray(numbers)
        cupy, ours = y.copy(), ag.tensor(y)
        exec(name, {"np": ag, "y": ours, "i": ag.tensor(i)})
        agrees[name] = {"ours": bool((ours.array.get() == expected).all())}
        if copied or not lab.emulated:  # the stand-in raises at what CUDA leaves undefined
            exec(name, {"np": lab.cp, "y": cupy, "i": i})
            agrees[name]["cupy"] = bool((cupy.get() == expected).all())
    good = all(one["ours"] and (not OVERLAPS[name] or one["cupy"]) for name, one in agrees.items())
    return {"ok": good, "as NumPy": agrees}


@check("launches", 18, seconds=10.0, captures=True)
def launches(lab: Lab) -> Found:
    """Kernels, copies and fills that an expression launches: nodes of its graph, beside the stand-in's count."""
    wrong: dict[str, Any] = {}
    for expression, expected in LAUNCHES.items():
        x, y = lab.cp.ones((4, 6), np.float32), lab.cp.full((4, 6), 2, np.float32)
        scope = {"cp": lab.cp, "x": x, "y": y, "numbers": lab.cp.arange(4), "mask": x > 0}
        eval(expression, scope)
        lab.wait()
        count = _counted(lab, lambda expression=expression, scope=scope: eval(expression, scope))
        if count != expected:
            wrong[expression] = {"launched": count, "expected": expected}
    return {"ok": not wrong, "expressions": len(LAUNCHES), "different": wrong}


def _counted(lab: Lab, work: Callable[[], Any]) -> int | str:
    if lab.emulated:
        with lab.cp._emulation.counted() as counter:
            work()
        return counter.total
    try:
        graph = captured(lab.cp.cuda.Stream(non_blocking=True), work)
    except Exception as error:  # it waits for the device, say: then nobody can capture it
        return f"{type(error).__name__}: {error}"
    driver, count, kind = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_int()
    pointer = ctypes.c_void_p(graph.graph)
    _ask(driver.cuGraphGetNodes(pointer, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _ask(driver.cuGraphGetNodes(pointer, nodes, ctypes.byref(count)))
    kinds = []
    for node in nodes:
        _ask(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
        kinds.append(kind.value)
    return sum(code in WORK_NODES for code in kinds)


def _ask(status: int) -> None:
    if status:
        raise RuntimeError(f"the CUDA driver answers error {status}")


@check("batched linear algebra", 14, seconds=12.0)
def linear_algebra(lab: Lab) -> Found:
    """Which matrix of a batch fails, and how exact batches are."""
    good = np.array([[2.0, 0.5], [0.5, 1.0]])
    bad = np.stack([good, -good, good, np.zeros((2, 2))])
    said, largest = {}, {}
    for name in ("inv", "cholesky"):
        try:
            getattr(ag.linalg, name)(ag.tensor(lab.cp.asarray(bad)))
            said[name] = "no error"
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    symmetric = lab.random.standard_normal((20, 8, 8))
    symmetric += symmetric.swapaxes(1, 2)
    values, vectors = (t.array.get() for t in ag.linalg.eigh(ag.tensor(lab.cp.asarray(symmetric))))
    largest["eigh"] = float(np.abs(vectors * values[:, None] @ vectors.swapaxes(1, 2) - symmetric).max())
    u, s, v = (t.array.get() for t in ag.linalg.svd(ag.tensor(lab.cp.asarray(symmetric)), full_matrices=False))
    largest["svd"] = float(np.abs(u * s[:, None] @ v - symmetric).max())
    p, lower, upper = (t.array.get() for t in ag.linalg.lu(ag.tensor(lab.cp.asarray(symmetric))))
    largest["lu"] = float(np.abs(p @ lower @ upper - symmetric).max())
    exponential = ag.matrix_exp(ag.tensor(lab.cp.asarray(symmetric))).array.get()
    expected = vectors * np.exp(values)[:, None] @ vectors.swapaxes(1, 2)
    largest["matrix_exp"] = float((np.abs(exponential - expected).max((1, 2)) / np.abs(expected).max((1, 2))).max())
    raised = all(text.startswith("LinAlgError") for text in said.values())
    return {"ok": raised and max(largest.values()) < 1e-11, "said": said, "largest error": largest}


@check("watched allocations", 11)
def watched(lab: Lab) -> Found:
    """Microseconds of an allocation, with peaks noted and without."""
    cp, empty = lab.cp, lambda: lab.cp.empty((64,), np.float32)
    before = cp.cuda.get_allocator()
    plain = host_us(lab, empty)
    try:
        memory_stats.watch()
        noted = host_us(lab, empty)
    finally:
        cp.cuda.set_allocator(before)
    return {"ok": lab.judge(noted < 3 * plain), "us": {"plain": plain, "watched": noted}}


@check("an illegal address", 13, seconds=10.0, breaks=True)
def sticky(lab: Lab) -> Found:
    """What a process is told after a kernel has written out of bounds: it can use the device no more."""
    lab.refuse_emulated("the emulator raises at the access, and goes on")
    cp, stream = lab.cp, lab.cp.cuda.Stream(non_blocking=True)
    code = 'extern "C" __global__ void wild(float* x) { x[0] = 1.0f; }'
    with stream:
        cp.RawKernel(code, "wild")((1,), (1,), (np.uint64(64),))
    calls = {"synchronize": stream.synchronize, "again": stream.synchronize, "query": lambda: stream.done,
             "our query": lambda: ag.cuda.current_stream().query(),
             "another stream": lambda: cp.cuda.Stream(non_blocking=True), "allocation": lambda: cp.cuda.alloc(1 << 28),
             "deviceSynchronize": lab.wait}  # fmt: skip
    said = {}
    for name, call in calls.items():
        try:
            said[name] = repr(call())
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    good = all("cudaErrorIllegalAddress" in said[name] for name in ("synchronize", "deviceSynchronize"))
    return {"ok": good, "said": said}
