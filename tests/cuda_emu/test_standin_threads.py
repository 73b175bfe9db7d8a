"""What CuPy keeps per thread, and what goes wrong where threads share it: wrong programs beside their right twins."""

import importlib
import os
import subprocess
import sys
import threading
from contextlib import nullcontext

import numpy as np
import pytest
from checkout import STAND_IN
from cuda_emu.programs import found, ready

pytestmark = [pytest.mark.emulated, pytest.mark.smoke]



def on_a_thread(work):
    """What `work` returns on a thread of its own, or raises there."""
    outcome = []

    def body():
        try:
            outcome.append((work(), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result


# ---- streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [True, False])
def test_every_thread_has_a_default_stream_of_its_own(cp, schedule, waits):
    """One number, `Stream.ptds`, and as many streams as threads."""
    (a,), own = ready(cp, 1), cp.cuda.Stream.ptds
    with own:
        a += 1
        ended = own.record()

    def add():
        if waits:
            own.wait_event(ended)
        with own:
            a.__iadd__(1)
        own.synchronize()

    with nullcontext() if waits else found("RaceError", "nothing orders the two"):
        on_a_thread(add)
    cp.cuda.Device().synchronize()


def test_a_thread_that_ended_leaves_its_work_behind(cp, schedule):
    (a,) = ready(cp, 1)

    def add():
        with cp.cuda.Stream.ptds:
            a.__iadd__(1)

    on_a_thread(add)
    cp.cuda.Device().synchronize()
    assert a.tolist() == [2.0] * a.size


PER_THREAD = """
import cupy as cp
assert cp.cuda.get_current_stream() == cp.cuda.Stream.ptds
with cp.cuda.Stream(non_blocking=True):
    assert cp.cuda.get_current_stream() != cp.cuda.Stream.ptds
assert cp.cuda.get_current_stream() is cp.cuda.Stream.ptds
with cp.cuda.Stream.ptds as stream:
    a = cp.ones(3)
    stream.begin_capture()
    a += 1
    assert stream.is_capturing()
    stream.end_capture()
"""


def test_threads_may_begin_on_streams_of_their_own():
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN), "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}
    subprocess.run([sys.executable, "-W", "error", "-c", PER_THREAD], env=environment, check=True)


# ---- handles of cuBLAS ---------------------------------------------------------------------------------


def multiply(cp, handle):
    from cupy_backends.cuda.libs import cublas

    one, a, c = np.ones(2, "float32"), cp.ones((4, 4), "float32"), cp.empty((4, 4), "float32")
    cublas.gemmEx(handle, 0, 0, 4, 4, 4, one.ctypes.data, a.data.ptr, 0, 4, a.data.ptr, 0, 4, one.ctypes.data,
                  c.data.ptr, 0, 4, 68, -1)  # fmt: skip


@pytest.fixture
def handle(cp):
    """One of our own."""
    from cupy_backends.cuda.libs import cublas

    made = cublas.create()
    yield made
    cublas.destroy(made)


def test_cupys_handles_are_the_threads(cp):
    from cupy import _handles

    here = cp.cuda.device.get_cublas_handle()
    assert cp.cuda.device.get_cublas_handle() == cp.cuda.Device().cublas_handle == here
    there = on_a_thread(cp.cuda.device.get_cublas_handle)
    assert there != here
    assert there not in _handles.HANDLES  # gone with its thread


@pytest.mark.parametrize("locked", [True, False])
def test_a_handle_on_two_threads_at_the_same_time(cp, handle, monkeypatch, locked):
    """The second thread comes while the first is in the call."""
    from cupy import _handles

    lock, inside, seen = threading.Lock() if locked else nullcontext(), threading.Event(), []

    def other():
        inside.wait()
        try:
            with lock:
                multiply(cp, handle)
        except Exception as error:
            seen.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    with lock, monkeypatch.context() as patch:
        patch.setattr(_handles, "let_others_run", lambda: (inside.set(), thread.join(0.2)))
        multiply(cp, handle)
    thread.join()
    assert [type(error).__name__ for error in seen] == ([] if locked else ["HazardError"])
    assert locked or "used by two threads at the same time" in str(seen[0])


@pytest.mark.parametrize("captured", [True, False])
def test_a_handle_made_in_a_capture(cp, schedule, captured):
    from cupy_backends.cuda.libs import cublas

    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        if captured:
            stream.begin_capture()
        if not captured:
            cublas.destroy(cublas.create())
        else:
            with found("HazardError", "a cuBLAS handle is made while stream .* is being captured"):
                cublas.create()
            with pytest.raises(RuntimeError, match="CaptureInvalidated"):
                stream.end_capture()


def test_products_are_refused_in_a_capture(cp, handle, schedule):
    """By CuPy, which spoils nothing."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(NotImplementedError, match="cuBLAS API during stream capture"):
            multiply(cp, handle)
        stream.end_capture()
    blocking = cp.cuda.Stream()
    blocking.begin_capture()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="CaptureImplicit"):
        cp.cuda.runtime.streamIsCapturing(0)  # CuPy asks that of the null stream before each product
    blocking.end_capture()


def test_a_handle_on_the_default_streams_of_two_threads(cp, handle):
    with cp.cuda.Stream.ptds:
        multiply(cp, handle)

    def other():
        with cp.cuda.Stream.ptds:
            multiply(cp, handle)

    with found("HazardError", "works on the default streams of two threads"):
        on_a_thread(other)
    on_a_thread(lambda: multiply(cp, handle))  # the null stream is one for all threads
    cp.cuda.Device().synchronize()


def test_a_handle_that_was_destroyed(cp):
    from cupy_backends.cuda.libs import cublas

    handle = cublas.create()
    cublas.destroy(handle)
    for use in (lambda: multiply(cp, handle), lambda: cublas.setMathMode(handle, 0), lambda: cublas.destroy(handle)):
        with found("HazardError", "is no cuBLAS handle, or one that was destroyed"):
            use()


# ---- the rest ------------------------------------------------------------------------------------------


def test_allocators_errors_and_hooks_are_the_threads(cp):
    import cupyx

    class Hook(cp.cuda.MemoryHook):
        pass

    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc), cupyx.errstate(linalg="raise"), Hook():
        kept = cp.ones(3)
        assert on_a_thread(lambda: cp.cuda.get_allocator() == pool.malloc) is False
        assert on_a_thread(cupyx.geterr)["linalg"] == "ignore"
        assert on_a_thread(lambda: dict(cp.cuda.memory_hook.get_memory_hooks())) == {}
        assert cupyx.geterr()["linalg"] == "raise"
    assert pool.used_bytes() == 512
    assert kept.size == 3


# ---- memory --------------------------------------------------------------------------------------------


def test_blocks_are_found_while_another_thread_allocates(cp, monkeypatch):
    """Also while the stand-in forgets freed blocks, which it does here after every fourth."""
    memory = importlib.import_module("cupy._memory")
    monkeypatch.setattr(memory, "KEPT", 4)
    kept = [cp.empty(3) for _ in range(2000)]  # a long list takes long to make anew
    errors, enough, before = [], threading.Event(), sys.getswitchinterval()

    def look():
        try:
            while not enough.is_set():
                array = kept[-1]
                assert memory.find(array.data.ptr).ptr == array.data.ptr
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=look)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(1000):
            kept[-1] = cp.empty(3)
            cp.cuda.runtime.deviceSynchronize()
    finally:
        enough.set()
        thread.join()
        sys.setswitchinterval(before)
    assert not errors
