"""Graphs, arguments and devices: what the stand-in refuses, with the right twin beside it."""

import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from checkout import STAND_IN
from cuda_emu.programs import N, found, ready, two_streams

pytestmark = [pytest.mark.emulated, pytest.mark.smoke]



# ---- graphs --------------------------------------------------------------------------------------------


def captured(cp, stream, work, mode=None):
    stream.begin_capture(mode)
    with stream:
        work()
    return stream.end_capture()


def test_a_graph_over_freed_memory(cp, schedule):
    stream, _ = two_streams(cp)
    sources, (b,) = ready(cp, 1), ready(cp, 0)
    graph = captured(cp, stream, lambda: b.__setitem__(..., sources[0]))
    graph.launch(stream)
    stream.synchronize()
    sources.clear()
    with found("HazardError", "the graph uses memory that is no longer its own, it was freed"):
        graph.launch(stream)


@pytest.mark.parametrize("private", [True, False])
def test_a_graph_keeps_its_pool_to_itself(cp, schedule, private):
    stream, _ = two_streams(cp)
    (a,) = ready(cp, 1)
    out, pool = cp.zeros(N, "float32"), cp.cuda.MemoryPool()
    cp.cuda.Stream.null.synchronize()
    with cp.cuda.using_allocator(pool.malloc):
        graph = captured(cp, stream, lambda: cp.add(a * 2, 1, out=out))  # a * 2 goes back to the pool at once
        graph.launch(stream)
        assert out.get(stream=stream)[0] == 3
    with stream, cp.cuda.using_allocator(None if private else pool.malloc):
        kept = cp.empty(N, "float32")
    with nullcontext() if private else found("HazardError", "its pool has given it away again"):
        graph.launch(stream)
        assert out.get(stream=stream)[0] == 3
    assert kept.size == N


def test_races_within_a_graph(cp, schedule):
    main, side = two_streams(cp)
    (a,) = ready(cp, 1)
    main.begin_capture()
    side.wait_event(main.record())
    with main:
        a += 1
    with side, found("RaceError", "race"):
        a += 1
    main.end_capture()


def test_races_between_a_graph_and_others(cp, schedule):
    stream, other = two_streams(cp)
    (a,) = ready(cp, 1)
    graph = captured(cp, stream, lambda: cp.add(a, 1, out=a))
    graph.launch(stream)
    with other, found("RaceError", "a graph of 1 operations"):
        a += 1
    stream.synchronize()


@pytest.mark.parametrize(("mode", "cached", "refused"), [(0, False, True), (0, True, False), (2, False, False)])
def test_allocation_in_a_capture(cp, mode, cached, refused):
    """cudaMalloc is refused unless the mode is relaxed; memory that the pool has is not cudaMalloc."""
    stream, _ = two_streams(cp)
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        if cached:
            with stream:
                cp.empty(N)
        stream.begin_capture(mode)
        with stream, pytest.raises(RuntimeError, match="CaptureUnsupported") if refused else nullcontext():
            cp.empty(N)
        with pytest.raises(RuntimeError, match="CaptureInvalidated") if refused else nullcontext():
            stream.end_capture()


# ---- arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "text"), [
    ({2: 0.5}, "argument 2: the kernel takes 4 bytes, got 8"), ({3: 64}, "argument 3: the kernel takes 4 bytes, got 8"),
    ({2: np.int32(1)}, "argument 2: the parameter is a floating type, got int32"),
    ({3: np.float32(1)}, "argument 3: the parameter is an integer type, got float32"),
    ({0: np.float32(1)}, "argument 0: the kernel takes a pointer"), ({3: "a"}, "by value"),
    ({0: np.ones(1)}, "argument 0: the kernel takes a pointer"),
], ids=str)  # fmt: skip
def test_kernel_arguments(cp, kernels, wrong, text):
    a, b = ready(cp, 1, 0)
    arguments = [a, b, np.float32(2), np.int32(N)]
    for position, value in wrong.items():
        arguments[position] = a if value == "a" else value
    with pytest.raises(TypeError, match=text):
        kernels["scale"]((1,), (N,), arguments)
    with pytest.raises(TypeError, match="points to a floating type, got int32"):
        kernels["scale"]((1,), (N,), (a.view("int32"), b, np.float32(2), np.int32(N)))
    with pytest.raises(TypeError, match="4 parameters, got 3"):
        kernels["scale"]((1,), (N,), arguments[:3])


@pytest.mark.parametrize(("wrong", "text"), [
    ({"lda": 9}, "do not lie in"), ({"C": "short"}, "do not lie in"), ({"A": "host"}, "no device memory in use"),
    ({"A": "freed"}, "no device memory in use .*freed"), ({"B": "odd"}, "not aligned"),
    ({"alpha": "device"}, "pointer mode"),
])  # fmt: skip
def test_gemm_addresses(cp, wrong, text):
    from cupy_backends.cuda.libs import cublas

    one, host, a = np.ones(2, "float32"), np.ones(64, "float32"), cp.ones((8, 8), "float32")
    c, short, freed = cp.empty_like(a), cp.empty(63, "float32"), cp.ones((8, 8), "float32").data.ptr
    named = {"host": host.ctypes.data, "freed": freed, "short": short.data.ptr, "odd": a.data.ptr + 2,
             "device": a.data.ptr}  # fmt: skip
    arguments = {"alpha": one.ctypes.data, "A": a.data.ptr, "B": a.data.ptr, "C": c.data.ptr, "lda": 8}
    arguments |= {name: named.get(value, value) for name, value in wrong.items()}
    with found("HazardError", text):
        cublas.gemmEx(
            cp.cuda.device.get_cublas_handle(), 0, 0, 8, 8, 8, arguments["alpha"], arguments["A"], 0, arguments["lda"],
            arguments["B"], 0, 8, one.ctypes.data, arguments["C"], 0, 8, 68, -1,
        )  # fmt: skip


def test_gemm_results_that_overlap(cp):
    from cupy_backends.cuda.libs import cublas

    one, a, c = np.ones(2, "float32"), cp.ones((2, 4, 4), "float32"), cp.empty((2, 4, 4), "float32")
    with found("HazardError", "C: matrices of 4 x 4, leading dimension 4, overlap at stride 8"):
        cublas.gemmStridedBatchedEx(
            cp.cuda.device.get_cublas_handle(), 0, 0, 4, 4, 4, one.ctypes.data, a.data.ptr, 0, 4, 16, a.data.ptr, 0, 4,
            16, one.ctypes.data, c.data.ptr, 0, 4, 8, 2, 68, -1,
        )  # fmt: skip


# ---- undefined results ---------------------------------------------------------------------------------


OVERLAPS = {
    "memcpy": lambda cp, a: a.__setitem__(slice(1, None), a[:-1]),
    "rows": lambda cp, a: a.reshape(N // 4, 4).__setitem__(slice(1, None), a.reshape(N // 4, 4)[:-1]),
    "copyto": lambda cp, a: cp.copyto(a[1:], a[:-1]),
    "indices": lambda cp, a: a.__setitem__(cp.arange(3), a[1:4]),
    "mask": lambda cp, a: a[:3].__setitem__(cp.ones(3, bool), a[1:4]),
    "add.at": lambda cp, a: cp.add.at(a, cp.arange(3), a[1:4]),
    "memcpyAsync": lambda cp, a: cp.cuda.runtime.memcpyAsync(a.data.ptr + 4, a.data.ptr, 64, 3, 0),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlaps_that_nobody_copies_first(cp, schedule, name):
    """CuPy checks the operands of ufuncs only."""
    (a,) = ready(cp, 1)
    with found("HazardError", "overlap"):
        OVERLAPS[name](cp, a)


def test_overlaps_that_cupy_copies_first(cp, schedule):
    a, expected = cp.arange(8.0), np.arange(8.0)
    for array in (a, expected):
        array[1:] += array[:-1]
        array[::-1] = array
        array[::2] = array[:4]
        array[...] = array
    assert a.tolist() == expected.tolist()


@pytest.mark.parametrize(("schedule", "last"), [("late", 1), ("eager", 2)], indirect=["schedule"])
def test_which_of_several_values_stays(cp, schedule, last):
    """None of them for sure: the order of threads is that of the schedule."""
    a = cp.zeros(4)
    a[cp.asarray([1, 1, 3])] = cp.asarray([1.0, 2.0, 3.0])
    a.put([2, 6], [1.0, 2.0])
    assert a.tolist() == [0, last, last, 3]


# ---- the rest ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "schedule"), [("reverse", "late"), ("forward", "eager"), (int, "random:4")])
def test_the_schedule_orders_threads_too(cp, schedule, kernels, order):
    from cupy import _emulation, _function

    a, b = ready(cp, 1, 0)
    kernels["scale"]((1,), (N,), (a, b, np.float32(2), np.int32(N)))
    assert _emulation.launches[-1] == ("scale", (1, 1, 1), (N, 1, 1))
    assert b[0] == 2
    assert _function._order() == order or isinstance(_function._order(), order)


def test_a_loop_of_questions_ends(cp, schedule):
    stream, _ = two_streams(cp)
    with stream:
        a = cp.ones(N)
        event = stream.record()
        a += 1
    while not event.done:
        pass
    while not stream.done:
        pass
    assert a.get(stream=stream)[0] == 2


SECOND_DEVICE = """
import cupy as cp, numpy as np
assert cp.cuda.runtime.getDeviceCount() == 2
a = cp.arange(6.0).reshape(2, 3)
kernel = cp.RawKernel('extern "C" __global__ void f(const double* x) {}', "f")
function = kernel.kernel
with cp.cuda.Device(1):
    b = cp.asarray(a)
    assert b.device.id == 1 and (b.get() == a.get()).all() and cp.get_default_memory_pool().used_bytes() == 512
    uses = (lambda: a + 1, lambda: kernel((1,), (1,), (a,)), lambda: a[cp.asarray([0])], lambda: cp.sort(a))
    for use in uses:
        try:
            use()
        except ValueError as error:
            assert "(0) is different from the current device (1). Peer access is unavailable" in str(error), error
        else:
            raise AssertionError("no error")
    with cp.cuda.Stream():
        b += 1
    cp.cuda.Device().synchronize()
    try:
        function((1,), (1,), (b,))
    except cp.cuda.driver.CUDADriverError as error:
        assert "CUDA_ERROR_INVALID_HANDLE" in str(error), error
    else:
        raise AssertionError("a function of another device's module was launched")
    kernel((1,), (1,), (b,))
    assert kernel.kernel is not function
assert cp.cuda.runtime.getDevice() == 0 and not cp.cuda.runtime.deviceCanAccessPeer(0, 1)
"""


def test_two_devices():
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN), "AUTOGRAD_GPU_EMU_DEVICES": "2"}
    subprocess.run([sys.executable, "-W", "error", "-c", SECOND_DEVICE], env=environment, check=True)
