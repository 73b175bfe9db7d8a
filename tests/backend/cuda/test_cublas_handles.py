"""Handles of cuBLAS: one for each stream, whichever thread multiplies, and none where making one does harm."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.cuda import cublas, cublas_handles, runtime

pytestmark = pytest.mark.cuda


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


@pytest.fixture
def made(monkeypatch):
    """Every handle that is made from here on and not destroyed; there are none yet."""
    bindings, alive = runtime.cublas(), []

    class Bindings:
        def __getattr__(self, name):
            return getattr(bindings, name)

        def create(self):
            alive.append(bindings.create())
            return alive[-1]

        def destroy(self, handle):
            bindings.destroy(handle)
            alive.remove(handle)

    monkeypatch.setattr(runtime, "cublas", Bindings)
    for name in ("_SHARED", "_MADE", "_OF_THREAD"):
        kept = getattr(cublas_handles, name)
        fresh = type(kept)(list) if name == "_MADE" else type(kept)()
        monkeypatch.setattr(cublas_handles, name, fresh)
    device = runtime.cupy().cuda.Device()
    yield alive
    device.synchronize()
    cublas_handles._OF_THREAD.handles.clear()
    for handle in alive:
        bindings.destroy(handle)


def on_threads(work, count=1):
    """What `work` returns on so many threads, which run one after the other."""
    seen = []
    for _ in range(count):
        thread = threading.Thread(target=lambda: seen.append(work()))
        thread.start()
        thread.join()
    assert len(seen) == count
    return seen


def square(a):
    return cublas.matmul(a, a)


# ---- which handle --------------------------------------------------------------------------------------


def test_threads_share_the_handle_of_a_stream(xp, made):
    a = xp.eye(4)
    for actual in on_threads(lambda: square(a), 3):
        assert actual.trace() == 4
    square(a)
    assert len(made) == 1


def test_threads_of_a_deep_backward_make_none(made):
    """Backward inside backward, 100 deep: each thread that helps multiplies."""

    class Deeper(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            return x @ x

        @staticmethod
        def backward(ctx, g):
            threads.add(threading.get_ident())
            if ctx.n:
                with ag.enable_grad():
                    x = ag.eye(2, requires_grad=True)
                    Deeper.apply(x, ctx.n - 1).sum().backward()
            return g @ g, None

    threads = set()
    Deeper.apply(ag.eye(2, requires_grad=True), 100).sum().backward()
    assert len(threads) >= 3
    assert len(made) == 1


def test_streams_have_their_own_until_there_are_many(xp, made, monkeypatch):
    monkeypatch.setattr(cublas_handles, "MAX_HANDLES", 3)
    a, streams = xp.eye(4), [xp.cuda.Stream() for _ in range(5)]
    seen = []
    for stream in streams * 2:
        with stream:
            square(a)
            seen.append(cublas_handles.handle(0).number)
    assert seen[:3] == made
    assert set(seen) == set(made)
    assert seen[:5] == seen[5:]


def test_a_thread_has_its_own_on_its_own_default_stream(xp, made):
    """All threads' have one number; the handle goes with the thread."""
    a = xp.eye(4)
    xp.cuda.Device().synchronize()

    def work():
        with xp.cuda.Stream.ptds as stream:
            square(a)
            square(a)
            stream.synchronize()
            return cublas_handles.handle(0).number

    here, (there,) = work(), on_threads(work)
    assert here != there
    assert made == [here]


def test_what_fails_to_make_one_is_raised(xp, made, monkeypatch):
    def fail():
        raise runtime.cublas().CUBLASError(1)

    a = xp.eye(4)
    with monkeypatch.context() as patch:
        patch.setattr(runtime.cublas, "create", lambda self: fail(), raising=False)
        with pytest.raises(RuntimeError, match="CUBLAS_STATUS_NOT_INITIALIZED"):
            square(a)
    assert square(a).trace() == 4
    assert len(made) == 1


# ---- what it is set to ---------------------------------------------------------------------------------


def test_modes_are_ours_whatever_cupys_handle_is_set_to(xp, made):
    bindings, theirs = runtime.cublas(), xp.cuda.device.get_cublas_handle()
    before = bindings.getMathMode(theirs), bindings.getPointerMode(theirs)
    a = xp.asarray(np.eye(4, dtype="float16"))
    try:
        bindings.setMathMode(theirs, 3)  # TF32
        bindings.setPointerMode(theirs, 1)  # factors in device memory
        assert square(a).trace() == 4
        (ours,) = made
        assert ours != theirs
        assert bindings.getMathMode(ours) == cublas_handles.WIDE_PARTIAL_SUMS
        assert bindings.getPointerMode(ours) == 0
        assert bindings.getMathMode(theirs) == 3
    finally:
        bindings.setMathMode(theirs, before[0])
        bindings.setPointerMode(theirs, before[1])


def test_a_product_asks_for_the_device_and_the_stream_and_nothing_else(xp, made, monkeypatch):
    """No import, no look at CuPy's modules, no question about captures, no change of a mode."""
    a, out, asked = xp.ones((2, 4, 4), "float16"), xp.empty((2, 4, 4), "float16"), []
    cublas.matmul(a, a, out=out)
    device, stream = runtime.current.device, runtime.current.stream
    monkeypatch.setattr(runtime.current, "device", lambda: asked.append("device") or device())
    monkeypatch.setattr(runtime.current, "stream", lambda *which: asked.append("stream") or stream(*which))
    for name in ("cupy", "cublas", "loaded"):
        monkeypatch.setattr(runtime, name, lambda name=name: pytest.fail(name))
    monkeypatch.setattr(xp.cuda.Stream, "is_capturing", lambda self: pytest.fail("is_capturing"))
    for _ in range(2):
        cublas.matmul(a, a, out=out)
        cublas.matmul(a[0], a[1].T, out=out[0])
    assert asked == ["device", "stream"] * 4


@pytest.mark.emulated
def test_threads_wait_for_one_another(xp, made, monkeypatch):
    """CuPy sets the handle's stream, then calls; the stand-in lets another thread run in between."""
    from cupy import _handles

    a, first, failed = xp.eye(4), threading.Event(), []
    square(a)

    def other():
        first.wait()
        try:
            square(a)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    with monkeypatch.context() as patch:
        patch.setattr(_handles, "let_others_run", lambda: (first.set(), thread.join(0.2)))
        square(a)
    thread.join()
    assert failed == []
    assert len(made) == 1


# ---- captures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", [lambda a, b: cublas.matmul(a, a), lambda a, b: cublas.matmul(b, b)],
                         ids=["gemm", "gemm_batched"])
@pytest.mark.parametrize("known", [True, False])
def test_a_product_in_a_capture_is_refused_before_a_handle_is_made(xp, made, product, known):
    a, b = xp.eye(4), xp.ones((2, 4, 4))
    xp.cuda.Device().synchronize()
    with xp.cuda.Stream(non_blocking=True) as stream:
        if known:
            square(a)
            stream.synchronize()
        stream.begin_capture()
        with ag.profiler.count() as counts, pytest.raises(RuntimeError, match="a matrix product cannot be captured"):
            product(a, b)
        assert isinstance(stream.end_capture(), xp.cuda.Graph)  # which was not spoilt
        assert len(made) == known
        assert not counts.launches
        assert backend.to_numpy(product(a, b)).max() in (1, 4)
        assert len(made) == 1


def test_the_null_stream_beside_the_capture_of_a_stream_that_it_waits_for(xp, made):
    a, blocking = xp.eye(4), xp.cuda.Stream()
    xp.cuda.Device().synchronize()
    out = xp.empty_like(a)
    blocking.begin_capture()
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureImplicit"):
        cublas.matmul(a, a, out=out)
    blocking.end_capture()
    assert made == []
