"""Saved-tensor hooks in CUDA graphs: tensors in fewer bits and in host memory, by replays and by the step itself."""

import gc
import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn
from autograd_gpu.autograd.graph import save_on_cpu, saved_tensors_hooks
from autograd_gpu.backend.transfer import captured
from autograd_gpu.backend.transfer.offload import pack
from autograd_gpu.cuda.capture_errors import CaptureError
from autograd_gpu.hooks import compose, offload, quantize

pytestmark = pytest.mark.cuda


def plain(tensor):
    return backend.to_numpy(tensor.detach().array)


def trained(hook, graphed, calls=24, depth=3):
    """Losses and weights after training with saved tensors in a `hook()`."""
    ag.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(6, 6), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(6, 2))
    update = ag.optim.Adam(model.parameters(), lr=0.02, capturable=True)

    def step(x, y):
        update.zero_grad()
        with hook():
            loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        update.step()
        return loss

    run = ag.cuda.make_graphed_step(step) if graphed else step
    losses = [run(ag.randn(5, 6), ag.randn(5, 2)) for _ in range(calls)]
    if graphed:
        assert run.graphs == 1
    return run, [plain(value) for value in (*losses, *model.parameters())]


HOOKS = {
    "float16": lambda: quantize("float16", min_bytes=0),
    "bfloat16": lambda: quantize("bfloat16", min_bytes=0),
    "float8 by tensor": lambda: quantize("float8_e4m3fn", min_bytes=0),
    "float8 by row": lambda: quantize("float8_e5m2", "row", min_bytes=0),
    "offload": lambda: offload(min_bytes=0),
    "offload at once": lambda: offload(prefetch=0, min_bytes=0, skip_parameters=False),
    "codes on the host": lambda: compose(quantize("float8_e4m3fn", min_bytes=0), offload(min_bytes=0)),
    "save_on_cpu": save_on_cpu,
    "save_on_cpu pinned": lambda: save_on_cpu(pin_memory=True, prefetch=2),
    "a user's": lambda: saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()),
}


@pytest.mark.parametrize("name", HOOKS)
def test_replays_do_what_the_step_does(name, device, monkeypatch):
    monkeypatch.setattr("autograd_gpu.backend.transfer.offload.MIN_BYTES", 16)
    for ours, reference in zip(*[trained(HOOKS[name], graphed)[1] for graphed in (True, False)], strict=True):
        np.testing.assert_array_equal(ours, reference)


def test_copies_are_ordered_in_each_schedule(schedule):
    for ours, reference in zip(*[trained(HOOKS["offload"], graphed)[1] for graphed in (True, False)], strict=True):
        np.testing.assert_array_equal(ours, reference)


def test_host_memory_is_the_graphs_and_stays_in_place(cp):
    """Blocks are used anew in the graph and by graphs that share its pool, and go with it."""
    x, pool = ag.randn(64, 64), ag.cuda.graph_pool_handle()

    def work():
        y = x.detach().requires_grad_()
        for _ in range(3):
            with offload(min_bytes=0, prefetch=0, slab_bytes=1 << 16):
                z = (y * 2).exp()
            (z.sum() * 1e-3).backward()
        return y.grad

    expected = plain(work())
    graphs = [ag.cuda.CUDAGraph() for _ in range(2)]
    results = []
    for cuda_graph in graphs:
        with ag.cuda.graph(cuda_graph, pool=pool):
            results.append(work())
    (slab,) = pool.slabs._slabs.values()
    assert slab.idle()
    assert slab.nbytes == 1 << 16
    for _ in range(20):
        for cuda_graph, result in zip(graphs, results, strict=True):
            cuda_graph.replay()
            np.testing.assert_array_equal(plain(result), expected)
    graphs[0].replay()
    del cuda_graph, slab, pool
    graphs.clear()  # while a replay is in flight
    gc.collect()
    cp.cuda.Device().synchronize()


def test_a_write_to_a_saved_tensor_waits_for_its_copy(schedule):
    x, w = ag.randn(256), ag.randn(256, requires_grad=True)

    def work():
        w.grad = None
        y = w * 1
        with offload(min_bytes=0, skip_parameters=False):
            z = (y * x).sum()
        x.add_(1)
        z.backward()

    work()
    start, cuda_graph = x.clone(), ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        work()
    for i in range(3):
        cuda_graph.replay()
        np.testing.assert_array_equal(plain(w.grad), plain(start + i))


def test_each_stream_of_a_capture_waits_for_a_copy_before_its_source_is_freed(device, monkeypatch):
    """The emulated pool does not see in a capture who takes memory over; so this looks at what waits."""
    x, side, waiting = ag.randn(256, requires_grad=True), ag.cuda.Stream(), []

    def waits(stream, event):
        waiting.append(stream.ptr)
        stream.wait_event(event)

    monkeypatch.setattr(captured, "wait", waits)
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        here = ag.cuda.current_stream()
        side.wait_stream(here)
        with ag.cuda.stream(side):
            y = x * 2
        here.wait_stream(side)
        with offload(min_bytes=0, prefetch=0):
            z = y.sin()
        assert waiting == [here.ptr, side.ptr]
        (grad,) = ag.autograd.grad(z.sum(), x)
    cuda_graph.replay()
    np.testing.assert_allclose(plain(grad), 2 * np.cos(2 * plain(x)), rtol=1e-5)


def test_packed_memory_is_shared_within_a_capture_only(device):
    """What was packed on the same stream before the capture holds values that a replay must not use."""
    x, stream = ag.randn(64) * 1, ag.cuda.Stream()
    w, hook = ag.randn(64, requires_grad=True), quantize("float16", min_bytes=0, skip_leaves=False)
    stream.wait_stream(ag.cuda.current_stream())

    def work():
        with hook:
            return (w * x).sum()

    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.stream(stream):
        kept = work()
    with ag.cuda.graph(cuda_graph, stream=stream):
        (grad,) = ag.autograd.grad(work(), w)
    ag.cuda.current_stream().wait_stream(stream)
    x.array[...] = 3  # the version stays
    cuda_graph.replay()
    assert grad.tolist() == [3] * 64
    assert kept.requires_grad


def test_other_threads_offload_on_lanes_of_their_own(device):
    x, theirs, done = ag.randn(64, requires_grad=True), ag.randn(64, requires_grad=True), []

    def work(leaf):
        with offload(min_bytes=0, skip_parameters=False):
            y = (leaf * 2).exp().sum()
        return ag.autograd.grad(y, leaf)[0]

    def other():
        done.append(plain(work(theirs)))

    expected = [plain(work(x)), plain(work(theirs))]
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        grad = work(x)
    cuda_graph.replay()
    np.testing.assert_array_equal(plain(grad), expected[0])
    np.testing.assert_array_equal(done[0], expected[1])


def test_graphed_callables_offload(device):
    """Forward and backward are graphs of one pool."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    eager, x = nn.Sequential(*model), ag.randn(3, 4, requires_grad=True)

    def hooked(x):
        with offload(min_bytes=0):
            return eager(x)

    expected = [plain(g) for g in ag.autograd.grad(eager(x).sum(), [x])]
    graphed = ag.cuda.make_graphed_callables(hooked, (ag.randn(3, 4, requires_grad=True),))
    for _ in range(3):
        np.testing.assert_allclose(plain(ag.autograd.grad(graphed(x).sum(), x)[0]), expected[0], rtol=1e-6)


def failing(work, match, error=CaptureError, **options):
    with pytest.raises(error, match=match), ag.cuda.graph(ag.cuda.CUDAGraph(), **options):
        work()
    assert not ag.cuda.is_current_stream_capturing()


def saved(x, **options):
    with offload(min_bytes=0, **options):
        return (x * 2).exp().sum()


def test_what_cannot_be_offloaded_is_refused(device):
    x = ag.randn(1024, requires_grad=True)
    outside = saved(x)
    where = rf"cannot be captured in a CUDA graph, at {__file__}:\d+: "
    failing(outside.backward, where + ".* outside of the graph .* run forward and backward in the captured code")
    failing(lambda: saved(x, slab_bytes=64), "exp " + where + r".*slab_bytes=\d+")
    failing(lambda: pack(x.array), where + ".*in the mode 'relaxed'", capture_error_mode="global")
    outside.backward()


def test_backward_outside_of_the_graph(device):
    """It reads what the last replay has left in the host memory of the graph, also if the graph is gone."""
    x, cuda_graph = ag.randn(1024, requires_grad=True), ag.cuda.CUDAGraph()
    saved(x)
    with ag.cuda.graph(cuda_graph):
        inside = saved(x)
    cuda_graph.replay()
    ours = [ag.autograd.grad(inside, x, retain_graph=True)[0]]
    cuda_graph.reset()
    ours += ag.autograd.grad(inside, x)
    (expected,) = ag.autograd.grad(saved(x), x)
    for grad in ours:
        np.testing.assert_array_equal(plain(grad), plain(expected))
