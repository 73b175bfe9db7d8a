"""Handles of cuBLAS: one for each stream, whichever thread multiplies, none where making one does harm; captures."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend import kernels
from autograd_gpu.backend.cuda import cublas, cublas_handles, libcublas, runtime
from autograd_gpu.backend.kernels import loader

pytestmark = pytest.mark.cuda


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


@pytest.fixture
def made(monkeypatch):
    """Every handle that is made from here on and not destroyed; there are none yet."""
    library, alive = libcublas.library(), []
    create, destroy = library.cublasCreate_v2, library.cublasDestroy_v2

    def noted(pointer):
        status = create(pointer)
        alive.append(pointer._obj.value)
        return status

    def forgotten(handle):
        alive.remove(handle)
        return destroy(handle)

    monkeypatch.setattr(library, "cublasCreate_v2", noted)
    monkeypatch.setattr(library, "cublasDestroy_v2", forgotten)
    for name in ("_SHARED", "_MADE", "_OF_THREAD"):
        kept = getattr(cublas_handles, name)
        fresh = type(kept)(list) if name == "_MADE" else type(kept)()
        monkeypatch.setattr(cublas_handles, name, fresh)
    device = runtime.cupy().cuda.Device()
    yield alive
    device.synchronize()
    cublas_handles._OF_THREAD.places.clear()
    for handle in alive:
        destroy(handle)


def on_threads(work, count=1):
    """What `work` returns on so many threads, which run one after the other."""
    found = []
    for _ in range(count):
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        thread.join()
    assert len(found) == count
    return found


def square(a):
    return cublas.matmul(a, a)


# ---- which handle --------------------------------------------------------------------------------------


def test_threads_share_the_handle_of_a_stream(xp, made):
    a = xp.eye(4)
    for found in on_threads(lambda: square(a), 3):
        assert found.trace() == 4
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
    found = []
    for stream in streams * 2:
        with stream:
            square(a)
            found.append(cublas_handles.place(0).number)
    assert found[:3] == made
    assert set(found) == set(made)
    assert found[:5] == found[5:]


def test_a_thread_has_its_own_on_its_own_default_stream(xp, made):
    """All threads' have one number; the handle goes with the thread."""
    a = xp.eye(4)
    xp.cuda.Device().synchronize()

    def work():
        with xp.cuda.Stream.ptds as stream:
            square(a)
            square(a)
            stream.synchronize()
            return cublas_handles.place(0).number

    here, (there,) = work(), on_threads(work)
    assert here != there
    assert made == [here]


@pytest.mark.parametrize(("status", "said"), [
    (1, r"CUBLAS_STATUS_NOT_INITIALIZED \(1\); no cuBLAS context"), (3, r"CUBLAS_STATUS_ALLOC_FAILED \(3\); .*free"),
    (99, r"an unknown status \(99\)$"),
])  # fmt: skip
def test_what_fails_to_make_one_is_raised(xp, made, monkeypatch, status, said):
    a = xp.eye(4)
    with monkeypatch.context() as patch:
        patch.setattr(libcublas.library(), "cublasCreate_v2", lambda pointer: status)
        with pytest.raises(RuntimeError, match=f"cublasCreate_v2 failed: {said}"):
            square(a)
    assert square(a).trace() == 4
    assert len(made) == 1


def test_no_memory_for_a_workspace(xp, made, monkeypatch):
    a = xp.eye(4)
    with monkeypatch.context() as patch:
        patch.setattr(cublas_handles, "_workspace_bytes", lambda device: 1 << 50)
        with pytest.raises(MemoryError):
            square(a)
    assert made == []
    assert square(a).trace() == 4


def called(monkeypatch, *names):
    """The functions of these names that are called from here on."""
    library, calls = libcublas.library(), []
    for name in names:
        function = getattr(library, name)

        def noted(*arguments, name=name, function=function):
            calls.append(name)
            return function(*arguments)

        monkeypatch.setattr(library, name, noted)
    return calls


def test_a_stream_is_set_once_and_its_workspace_behind_it(xp, made, monkeypatch):
    calls, a = called(monkeypatch, "cublasSetStream_v2", "cublasSetWorkspace_v2"), xp.eye(4)
    for _ in range(3):
        square(a)
    assert calls == ["cublasSetStream_v2", "cublasSetWorkspace_v2"]


def test_streams_that_share_a_handle_set_it_when_they_change(xp, made, monkeypatch):
    """Each has a workspace of its own: one for both would be a race."""
    monkeypatch.setattr(cublas_handles, "MAX_HANDLES", 1)
    calls, a = called(monkeypatch, "cublasSetStream_v2"), xp.eye(4)
    xp.cuda.Device().synchronize()
    streams = [xp.cuda.Stream(non_blocking=True) for _ in range(2)]
    found = []
    for stream in (*streams, streams[1], streams[0]):
        with stream:
            found.append(square(a))
            found.append(square(a))
    xp.cuda.Device().synchronize()
    assert [float(x.trace()) for x in found] == [4.0] * 8
    assert len(calls) == 3
    assert len(made) == 1
    first, second = cublas_handles._SHARED.values()
    assert first.handle is second.handle
    assert first.workspace.ptr != second.workspace.ptr


# ---- what it is set to ---------------------------------------------------------------------------------


def test_modes_are_ours_whatever_cupys_handle_is_set_to(xp, made):
    bindings, theirs = pytest.importorskip("cupy_backends.cuda.libs.cublas"), xp.cuda.device.get_cublas_handle()
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
    for name in ("cupy", "cublas_library", "loaded"):
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


def test_a_signal_handler_may_multiply_and_launch(xp, made):
    """The locks are held by this thread; others wait."""
    a = xp.ones((2, 3), "float32")
    with cublas_handles._LOCK, loader._LOCK:
        assert backend.to_numpy(cublas.matmul(a, a.T)).tolist() == [[3, 3], [3, 3]]
        assert backend.to_numpy(kernels.row_sum(a)).tolist() == [3, 3]
        with cublas_handles.place(0).lock:
            cublas.matmul(a, a.T)


def test_a_call_that_fails_is_named_with_its_sizes(xp, made, monkeypatch):
    a, place = xp.ones((2, 3, 3)), cublas_handles.place(0)
    for name in ("gemm", "gemm_batched"):
        monkeypatch.setattr(type(place), name, lambda *arguments: 15)
    with pytest.raises(RuntimeError, match=r"^cublasGemmEx failed for \(3, 3\) @ \(3, 3\) of float64: "
                                           r"CUBLAS_STATUS_NOT_SUPPORTED \(15\)$"):
        cublas.matmul(a[0], a[1])
    with pytest.raises(RuntimeError, match=r"^cublasGemmStridedBatchedEx failed for 2 products \(3, 3\) @ \(3, 3\)"):
        cublas.matmul(a, a)


# ---- captures ------------------------------------------------------------------------------------------

PRODUCTS = {
    "gemm": lambda xp, a, out: cublas.matmul(a[0], a[1], out=out[0]),
    "gemm_batched": lambda xp, a, out: cublas.matmul(a, a, out=out),
    "accumulate": lambda xp, a, out: cublas.matmul(a, a, out=out, accumulate=True),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("warm", [True, False], ids=["stream known", "another stream known"])
def test_a_captured_product_replays(xp, made, product, warm):
    a, out = xp.ones((2, 4, 4)), xp.zeros((2, 4, 4))
    multiply = PRODUCTS[product]
    with xp.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(xp.cuda.Stream.null.record())
        with stream if warm else xp.cuda.Stream.null:
            multiply(xp, a, out.copy())
        xp.cuda.Device().synchronize()
        stream.begin_capture()
        with ag.profiler.count() as counts:
            multiply(xp, a, out)
        graph = stream.end_capture()
        assert sum(counts.launches.values()) == 1
        for factor in (1, 2, 3):
            a.fill(factor)
            graph.launch()
        stream.synchronize()
    expected = 4 * (1 + 4 + 9) if product == "accumulate" else 4 * 9
    assert backend.to_numpy(out)[0].tolist() == [[expected] * 4] * 4
    assert len(made) == 1


def test_the_first_product_of_a_device_is_not_captured(xp, made):
    a = xp.eye(4)
    xp.cuda.Device().synchronize()
    for stream in (xp.cuda.Stream(non_blocking=True), xp.cuda.Stream.ptds):
        with stream:
            stream.begin_capture()
            with ag.profiler.count() as counts, pytest.raises(RuntimeError, match="Run the step once before begin_cap"):
                square(a)
            assert isinstance(stream.end_capture(), xp.cuda.Graph)  # which was not spoilt
            assert made == []
            assert not counts.launches
    assert square(a).trace() == 4


def test_a_captured_layer_with_its_backward(xp, made):
    """A whole step of training: products, our kernels, CuPy's ufuncs, and the optimizer."""

    def trained(captured):
        ag.manual_seed(0)
        net = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Tanh(), ag.nn.Linear(8, 2)).to("cuda")
        optimizer, x = ag.optim.SGD(net.parameters(), lr=0.1), ag.ones(5, 4, device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=True)
            (net(x) ** 2).sum().backward()
            optimizer.step()

        xp.cuda.Device().synchronize()
        with xp.cuda.Stream(non_blocking=True) as stream:
            step()
            stream.synchronize()
            if captured:
                stream.begin_capture()
                step()
                graph = stream.end_capture()
            for _ in range(3):
                graph.launch() if captured else step()
            stream.synchronize()
        return [backend.to_numpy(p.detach().array) for p in net.parameters()]

    for found, expected in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_null_stream_beside_the_capture_of_a_stream_that_it_waits_for(xp, made):
    a, blocking = xp.eye(4), xp.cuda.Stream()
    xp.cuda.Device().synchronize()
    out = xp.empty_like(a)
    blocking.begin_capture()
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureImplicit"):
        cublas.matmul(a, a, out=out)
    blocking.end_capture()
    assert made == []
