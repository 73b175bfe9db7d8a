"""What a hook finds on the threads that help a deep backward: what its caller would find."""

import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT, STAND_IN, SUPPORT

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.cuda import thread_state
from autograd_gpu.core.thread_state import MAX_NESTED


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


class Deeper(ag.autograd.Function):
    """Backward inside backward, `levels` deep, and there `innermost()`."""

    @staticmethod
    def forward(ctx, x, levels, innermost):
        ctx.levels, ctx.innermost = levels, innermost
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if ctx.levels:
            with ag.enable_grad():
                Deeper.apply(ag.ones(3, requires_grad=True), ctx.levels - 1, ctx.innermost).sum().backward()
        else:
            ctx.innermost()
        return g * 2, None, None


def found_deep(look, levels=2 * MAX_NESTED + 2):
    """What `look()` returns on the second helper thread."""
    seen = []
    x = ag.ones(3, requires_grad=True)
    Deeper.apply(x, levels, lambda: seen.append((threading.get_ident(), look()))).sum().backward()
    ((thread, result),) = seen
    assert thread != threading.get_ident()
    return result


# ---- Python's and NumPy's ------------------------------------------------------------------------------


def test_context_variables():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(3)
    assert found_deep(variable.get) == 3


def test_numpys_error_handling():
    with np.errstate(divide="raise", over="ignore"):
        assert found_deep(np.geterr) == np.geterr()


# ---- CuPy's --------------------------------------------------------------------------------------------


@pytest.mark.cuda
class TestCuPy:
    def test_allocator(self, xp):
        pool = xp.cuda.MemoryPool()
        with xp.cuda.using_allocator(pool.malloc):
            assert found_deep(xp.cuda.get_allocator) == pool.malloc
            kept = found_deep(lambda: ag.ones(1000))
            assert pool.used_bytes() >= 4000
        del kept

    def test_no_pool(self, xp):
        """using_allocator(None) is cudaMalloc."""
        with xp.cuda.using_allocator(None):
            assert isinstance(found_deep(lambda: xp.empty(10).data.mem), xp.cuda.Memory)
        assert not isinstance(found_deep(lambda: xp.empty(10).data.mem), xp.cuda.Memory)

    def test_the_allocator_of_the_process_is_not_made_the_threads(self, xp):
        """So that it can be set on a helper where it can be set here."""
        found_deep(lambda: xp.cuda.set_allocator(xp.cuda.get_allocator()))
        with xp.cuda.using_allocator(xp.cuda.MemoryPool().malloc), pytest.raises(ValueError, match="using_allocator"):
            found_deep(lambda: xp.cuda.set_allocator(xp.cuda.get_allocator()))

    def test_memory_hooks(self, xp):
        class Hook(xp.cuda.MemoryHook):
            def malloc_preprocess(self, **facts):
                threads.add(threading.get_ident())

        threads = set()
        with Hook():
            helper = found_deep(lambda: (ag.ones(1000), threading.get_ident())[1])
        assert {helper, threading.get_ident()} <= threads
        assert found_deep(lambda: dict(xp.cuda.memory_hook.get_memory_hooks())) == {}

    def test_errors_of_linalg(self, xp):
        import cupyx

        with cupyx.errstate(linalg="raise"):
            assert found_deep(cupyx.geterr)["linalg"] == "raise"
        assert found_deep(cupyx.geterr)["linalg"] == "ignore"

    def test_stream_behind_a_with_block_of_a_hook(self, xp):
        """CuPy goes back to the outer `with`, so the caller's stream has to be entered, not just used."""

        def look():
            with xp.cuda.Stream(non_blocking=True):
                pass
            return xp.cuda.get_current_stream()

        with xp.cuda.Stream(non_blocking=True) as stream:
            assert found_deep(look) is stream
            stream.synchronize()

    def test_own_streams_are_ordered(self, xp, schedule):
        """The caller's cannot be shared: the helper's comes behind it, and then it behind the helper's."""
        x, y = (ag.ones(3, requires_grad=requires_grad) for requires_grad in (True, False))
        xp.cuda.Device().synchronize()
        on_own_stream(xp, x, y)
        assert y.tolist() == [8.0] * 3
        assert x.grad.tolist() == [2.0] * 3

    @pytest.mark.emulated
    def test_own_streams_that_are_not_ordered(self, xp, schedule, monkeypatch):
        from cupy._errors import HazardError

        x, y = (ag.ones(3, requires_grad=requires_grad) for requires_grad in (True, False))
        xp.cuda.Device().synchronize()
        monkeypatch.setattr(thread_state.copy_engine, "wait", lambda stream, event: None)
        with pytest.raises(HazardError, match="race"):
            on_own_stream(xp, x, y)
        xp.cuda.Device().synchronize()

    @pytest.mark.emulated
    def test_devices(self):
        places = os.pathsep.join(map(str, (STAND_IN, SUPPORT, Path(__file__).parent)))
        environment = {**os.environ, "PYTHONPATH": places, "AUTOGRAD_GPU_EMU_DEVICES": "2"}
        done = subprocess.run([sys.executable, "-W", "error", "-c", TWO_DEVICES], cwd=ROOT, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def on_own_stream(xp, x, y):
    """y and a gradient by two threads, each on its own default stream."""
    with xp.cuda.Stream.ptds as stream:
        y.mul_(3)
        Deeper.apply(x, 2 * MAX_NESTED + 2, lambda: y.add_(1)).sum().backward()
        y.mul_(2)
        stream.synchronize()


TWO_DEVICES = """
import cupy as cp
import autograd_gpu as ag
from autograd_gpu.backend.cuda import cublas_handles
from test_thread_state import found_deep

first, second = cp.cuda.Stream(), None
with cp.cuda.Device(1):
    second = cp.cuda.Stream().use()
    a = ag.ones(2, 2, device="cuda:1")
with first:
    look = lambda: (cp.cuda.runtime.getDevice(), *[cp.cuda.get_current_stream(index) for index in (0, 1)])
    assert found_deep(look) == (0, first, second) == look()
    def multiply():
        with ag.cuda.device(1):
            return (a @ a).sum().item(), cublas_handles.place(1)
    found, handle = found_deep(multiply)
    assert found == 8 and multiply() == (8, handle) and list(cublas_handles._SHARED) == [(1, second.ptr)]
cp.cuda.Device(1).use()
assert found_deep(look) == (1, cp.cuda.Stream.null, second)
print("done")
"""
