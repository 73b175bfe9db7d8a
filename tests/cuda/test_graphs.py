"""CUDA graphs: replays do what the calls do; what a failed capture leaves; threads; pools."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.cuda import cublas_handles
from autograd_gpu.cuda.capture_errors import CaptureError
from benchmarks.models import make_weights, sequential

pytestmark = pytest.mark.cuda


def plain(tensor):
    return backend.to_numpy(tensor.detach().array)


def same(ours, reference):
    assert len(ours) == len(reference)
    for a, b in zip(ours, reference, strict=True):
        np.testing.assert_array_equal(plain(a), plain(b))


def recorded(work, **options):
    """The graph of `work`, and what it gave; run once before."""
    work()
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph, **options):
        out = work()
    return cuda_graph, out


# ---- one graph -----------------------------------------------------------------------------------------


def test_a_replay_computes_with_what_the_inputs_hold_now(schedule):
    x, w = ag.randn(8, 4), ag.randn(4, 3, requires_grad=True)

    def work():
        w.grad = None
        loss = ((x @ w).tanh() ** 2).mean()
        loss.backward()
        return loss

    cuda_graph, loss = recorded(work)
    for _ in range(20):
        x.copy_(ag.randn(8, 4))
        cuda_graph.replay()
        ours = [loss.detach().clone(), w.grad.clone()]
        expected = work()
        same(ours, [expected, w.grad])


def test_nothing_runs_in_the_capture(device):
    x = ag.ones(3)
    x.add_(1)
    with ag.cuda.graph(ag.cuda.CUDAGraph()):
        x.add_(1)
    assert x.tolist() == [2, 2, 2]


def test_second_derivatives(schedule):
    x, w = ag.randn(6, 3, requires_grad=True), ag.randn(3, 3, requires_grad=True)

    def work():
        w.grad = None
        u = (x @ w).tanh().sum(1)
        (first,) = ag.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = ag.autograd.grad(first.sum(), x, create_graph=True)
        ((second + u[:, None]) ** 2).mean().backward()
        return second

    cuda_graph, second = recorded(work)
    for _ in range(3):
        with ag.no_grad():
            x.copy_(ag.randn(6, 3))
        cuda_graph.replay()
        ours = [second.detach().clone(), w.grad.clone()]
        same(ours, [work(), w.grad])


def test_gradients_are_added_to_the_tensor_that_was_there(device):
    w, x = ag.ones(3, requires_grad=True), ag.ones(3)

    def work():
        (w * x).sum().backward()

    cuda_graph, _ = recorded(work)
    assert w.grad.tolist() == [1, 1, 1]
    cuda_graph.replay()
    cuda_graph.replay()
    assert w.grad.tolist() == [3, 3, 3]
    kept, w.grad = w.grad, None
    with pytest.raises(RuntimeError, match="another tensor when it was captured"):
        cuda_graph.replay()
    w.grad = kept
    cuda_graph.replay()
    assert w.grad.tolist() == [4, 4, 4]


def test_gradients_that_a_replay_sets(device):
    w, x = ag.ones(3, requires_grad=True), ag.ones(3)

    def work():
        w.grad = None
        (w * x).sum().backward()

    cuda_graph, _ = recorded(work)
    w.grad = None
    cuda_graph.replay()
    assert w.grad.tolist() == [1, 1, 1]


def test_products_have_a_workspace_of_the_graph(device):
    """The stream's own workspace is that of products which run beside the graph."""
    a, stream = ag.randn(64, 64), ag.cuda.Stream()
    stream.wait_stream(ag.cuda.current_stream())
    with ag.cuda.stream(stream):
        a @ a
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph, stream=stream):
        out = a @ a
    assert cuda_graph.pool().memory.total_bytes() > cublas_handles._workspace_bytes(0)
    with ag.cuda.stream(stream):
        cuda_graph.replay()
        same([a @ a], [out])
    stream.synchronize()


def test_memory_is_the_graphs_until_it_is_dropped(cp):
    x = ag.ones(1000)
    cuda_graph, y = recorded(lambda: (x * 2).exp())
    pool = cuda_graph.pool().memory
    assert pool.total_bytes() >= y.nbytes
    others = [ag.full((1000,), float(i)) for i in range(10)]
    cuda_graph.replay()
    assert all(other.eq(i).all() for i, other in enumerate(others))
    assert float(y[0]) == pytest.approx(np.exp(2.0))
    with pytest.raises(RuntimeError, match="already owns a captured graph"), ag.cuda.stream(ag.cuda.Stream()):
        cuda_graph.capture_begin()
    cuda_graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        cuda_graph.replay()


def test_graphs_share_a_pool(schedule):
    x, pool = ag.ones(1000), ag.cuda.graph_pool_handle()
    first, y = recorded(lambda: (x * 2).exp().log(), pool=pool)
    second, z = recorded(lambda: (y + 1).exp().log(), pool=pool)
    assert first.pool() is second.pool() is pool
    for value in (1.0, 5.0):
        x.fill_(value)
        first.replay()
        second.replay()
        assert float(z[0]) == pytest.approx(2 * value + 1, rel=1e-5)


def test_replays_on_other_streams_come_one_after_the_other(schedule):
    x = ag.zeros(3)
    cuda_graph, _ = recorded(lambda: x.add_(1))
    streams = [ag.cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(ag.cuda.current_stream())
    for stream in streams * 3:
        with ag.cuda.stream(stream):
            cuda_graph.replay()
    ag.cuda.current_stream().wait_stream(streams[-1])
    assert x.tolist() == [10, 10, 10]


def test_the_default_stream_is_not_captured(device):
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        ag.cuda.CUDAGraph().capture_begin()


def test_is_current_stream_capturing(device):
    assert not ag.cuda.is_current_stream_capturing()
    with ag.cuda.graph(ag.cuda.CUDAGraph()):
        assert ag.cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="captures do not nest"):
            ag.cuda.CUDAGraph().capture_begin()
        ag.ones(2)
    assert not ag.cuda.is_current_stream_capturing()


def test_debug_dump(device, tmp_path):
    cuda_graph, _ = recorded(lambda: ag.ones(3) * 2)
    cuda_graph.enable_debug_mode()
    cuda_graph.debug_dump(tmp_path / "graph.dot")
    assert "digraph" in (tmp_path / "graph.dot").read_text()


def test_kernels_whose_first_launch_is_captured(cp):
    """They are compiled and loaded then, which the relaxed mode allows: a warm-up is not needed for that."""
    source = f"""extern "C" __global__ void first_{id(cp)}(float* x) {{ x[threadIdx.x] *= 3.0f; }}"""
    kernel, x = cp.RawKernel(source, f"first_{id(cp)}"), cp.ones(4, cp.float32)
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        kernel((1,), (4,), (x,))
        y = cp.hypot(x, cp.float32(4))
    cuda_graph.replay()
    assert x.tolist() == [3] * 4
    assert y.tolist() == [5] * 4


# ---- captures that fail --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "work"),
    [
        ("argwhere", lambda x: x.nonzero()),
        ("inv", lambda x: ag.linalg.inv(x)),
        ("item", lambda x: x.sum().item()),
        ("tolist", lambda x: x.tolist()),
        ("to_device", lambda x: x + ag.tensor(np.ones(3, np.float32))),
    ],
)  # fmt: skip
def test_what_cannot_be_captured_is_named(op, work, schedule):
    x, w = ag.eye(3), ag.ones(3, requires_grad=True)
    w.grad = kept = ag.ones(3)
    work(x)
    cuda_graph = ag.cuda.CUDAGraph()

    def fail():
        with ag.cuda.graph(cuda_graph):
            w.grad = None
            (w * x[0]).sum().backward()
            work(x)

    with pytest.raises(CaptureError, match=rf"{op} cannot be captured in a CUDA graph, at .*test_graphs.py:\d+: "):
        fail()
    assert w.grad is kept
    assert not ag.cuda.is_current_stream_capturing()
    with ag.cuda.graph(cuda_graph):  # and the next capture works
        y = x * 2
    cuda_graph.replay()
    assert y.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


@pytest.mark.parametrize("error", [KeyError("mine"), ValueError("no frame was captured")])
def test_an_error_of_the_user_is_raised_as_it_is(error, device):
    def fail():
        with ag.cuda.graph(ag.cuda.CUDAGraph()):
            ag.ones(2)
            raise error

    with pytest.raises(type(error)) as raised:
        fail()
    assert raised.value is error
    assert not ag.cuda.is_current_stream_capturing()


# ---- threads -------------------------------------------------------------------------------------------


def test_a_capture_does_not_record_other_threads(device):
    """They work on while a stream is captured, and their gradients are not the graph's."""
    w, theirs, x, done = ag.ones(3, requires_grad=True), ag.ones(3, requires_grad=True), ag.ones(3), []
    (w * x).sum().backward()

    def other():
        (theirs * x * 3).sum().backward()
        done.append(theirs.grad.tolist())

    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        w.grad = None
        with ag.cuda.stream(ag.cuda.default_stream()):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        (w * x).sum().backward()
    assert done == [[3, 3, 3]]
    theirs.grad = None
    cuda_graph.replay()
    assert theirs.grad is None
    assert w.grad.tolist() == [1, 1, 1]


def test_captures_in_several_threads(device):
    results = []

    def work(number):
        x = ag.full((64, 64), float(number))
        cuda_graph, y = recorded(lambda: x @ x)
        x.fill_(number + 1.0)
        cuda_graph.replay()
        results.append((float(y[0, 0]), 64 * (number + 1.0) ** 2))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(ours == expected for ours, expected in results)


def test_a_deep_backward_is_captured_on_its_helper_thread(device):
    class Deeper(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.n = n
            return x @ x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if ctx.n:
                with ag.enable_grad():
                    y = x.detach().requires_grad_()
                    Deeper.apply(y, ctx.n - 1).sum().backward()
                return g @ y.grad, None
            return g @ x, None

    x = ag.full((2, 2), 0.5, requires_grad=True)

    def work():
        x.grad = None
        Deeper.apply(x, 40).sum().backward()

    cuda_graph, _ = recorded(work)
    x.grad = None
    cuda_graph.replay()
    ours = x.grad.clone()
    work()
    same([ours], [x.grad])


# ---- make_graphed_step ---------------------------------------------------------------------------------


def training(step_of, batches, **options):
    """Losses and what is left after training with the step that `step_of(step)` makes."""
    model = sequential(ag, make_weights((12, 9, 3)), "Tanh", "cuda")
    update = ag.optim.SGD(model.parameters(), lr=0.05, **options)

    def step(x, y):
        update.zero_grad()
        loss = ag.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        ag.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        update.step()
        return loss

    run = step_of(step)
    losses = [run(*batch) for batch in batches]
    return run, [*losses, *model.parameters(), *[p.grad for p in model.parameters()]]


def batches_of(*sizes):
    rng = np.random.default_rng(0)
    return [(ag.tensor(rng.normal(size=(n, 12)).astype(np.float32)), ag.tensor(rng.integers(0, 3, n))) for n in sizes]


def test_a_step_with_two_batch_sizes(schedule):
    batches = batches_of(*[8, 8, 8, 8, 5] * 5)
    graphed, ours = training(ag.cuda.make_graphed_step, batches)
    _, reference = training(lambda step: step, batches)
    same(ours, reference)
    assert graphed.graphs == 2


def test_samples_are_steps(device):
    batches = batches_of(*[8] * 10)
    graphed, ours = training(lambda step: ag.cuda.make_graphed_step(step, *batches[0], warmup=2), batches)
    assert graphed.graphs == 1
    _, reference = training(lambda step: step, [batches[0], batches[0], *batches])
    same(ours, reference[2:])


def test_gradients_accumulate_over_replays(device):
    w, x = ag.ones(3, requires_grad=True), ag.ones(3)

    def step(x):
        (w * x).sum().backward()

    graphed = ag.cuda.make_graphed_step(step)
    for i in range(8):
        graphed(x)
        assert w.grad.tolist() == [i + 1] * 3
    assert graphed.graphs == 1
    for _ in range(4):  # zeroed by the user now, which is another graph
        w.grad = None
        graphed(x)
        assert w.grad.tolist() == [1, 1, 1]
    assert graphed.graphs == 2


def test_results_of_a_replay_are_not_overwritten_by_the_next(schedule):
    graphed = ag.cuda.make_graphed_step(lambda x: {"double": x * 2, "name": "a"})
    results = [graphed(ag.full((3,), float(i))) for i in range(8)]
    assert [result["double"].tolist() for result in results] == [[2 * i] * 3 for i in range(8)]
    assert {result["name"] for result in results} == {"a"}


@pytest.mark.parametrize(
    ("reason", "inputs"),
    [
        ("is a tensor in host memory", lambda: (ag.ones(2, device="cpu"),)),
        ("has a history", lambda: (ag.ones(2, requires_grad=True) * 2,)),
        ("neither a tensor nor hashable", lambda: (bytearray(2),)),
    ],
)  # fmt: skip
def test_inputs_that_run_without_a_graph(reason, inputs, device):
    calls = []
    graphed = ag.cuda.make_graphed_step(calls.append)
    with pytest.warns(UserWarning, match=rf"runs without a graph: .*{reason}"):
        graphed(*inputs())
    for _ in range(5):  # one warning
        graphed(*inputs())
    assert len(calls) == 6
    assert graphed.graphs == 0


def test_a_step_that_cannot_be_captured(device):
    w, x = ag.ones(3, requires_grad=True), ag.ones(3)

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        if float(loss) < 0:
            w.grad = None

    graphed = ag.cuda.make_graphed_step(step)
    for _ in range(3):
        graphed(x)
    with pytest.warns(UserWarning, match=r"runs without a graph: __float__ cannot be captured .*test_graphs.py:\d+"):
        graphed(x)
    graphed(x)
    assert w.grad.tolist() == [5, 5, 5]


def test_numbers_that_change_make_no_endless_graphs(device):
    graphed, x = ag.cuda.make_graphed_step(lambda x, n: x * n, warmup=1), ag.ones(2)
    for n in range(16):
        for _ in range(2):
            assert graphed(x, n).tolist() == [n, n]
    graphed(x, 16)
    with pytest.warns(UserWarning, match="has 16 graphs already"):
        assert graphed(x, 16).tolist() == [16, 16]
    graphed.reset()
    assert graphed.graphs == 0


def test_numbers_are_told_apart(device):
    graphed, x = ag.cuda.make_graphed_step(lambda x, n: x / n, warmup=1), ag.ones(2)
    for n in (0.0, -0.0):
        for _ in range(3):
            assert graphed(x, n).tolist() == [float("inf") if str(n) == "0.0" else -float("inf")] * 2
    for _ in range(3):
        graphed(x, float("nan"))
    assert graphed.graphs == 3
    for n in range(1000):
        graphed(x, n + 0.5)
    assert len(graphed._kinds) <= 256


def test_modes_are_part_of_the_kind(device):
    graphed, x = ag.cuda.make_graphed_step(lambda x: x * 2, warmup=1), ag.ones(2)
    for mode in (ag.no_grad, ag.enable_grad):
        with mode():
            for _ in range(3):
                assert graphed(x).tolist() == [2, 2]
    assert graphed.graphs == 2
    with pytest.warns(UserWarning, match="inside a function transform"):
        assert ag.func.vmap(graphed)(ag.ones(2, 2)).tolist() == [[2, 2], [2, 2]]


def test_a_graphed_step_in_another_graph_is_a_part_of_it(device):
    inner = ag.cuda.make_graphed_step(lambda x: x * 2, warmup=1)
    outer, x = ag.cuda.make_graphed_step(lambda x: inner(x) + 1, warmup=2), ag.ones(2)
    for i in range(6):
        x.fill_(i)
        assert outer(x).tolist() == [2 * i + 1] * 2
    assert outer.graphs == 1
    cuda_graph, _ = recorded(lambda: x * 2)
    with pytest.raises(CaptureError, match="cannot be replayed while its stream is being captured"):
        recorded_again(cuda_graph)


def recorded_again(cuda_graph):
    with ag.cuda.graph(ag.cuda.CUDAGraph()):
        cuda_graph.replay()


def test_warmup_is_needed(device):
    with pytest.raises(ValueError, match="warmup must be at least 1"):
        ag.cuda.make_graphed_step(lambda: None, warmup=0)
