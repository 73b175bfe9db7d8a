"""Faults that are planted into captures and replays: each is found, by the stand-in or by the numbers."""

from collections import deque
from contextlib import nullcontext

import numpy as np
import pytest
from cuda_emu.programs import found

import autograd_gpu as ag
from autograd_gpu import backend, nn
from autograd_gpu.backend.cuda import cublas_handles, libcublas, live_numbers
from autograd_gpu.cuda.capture_errors import CaptureError
from autograd_gpu.random.generator import Generator

pytestmark = pytest.mark.emulated
STEPS = 6


@pytest.fixture(autouse=True)
def _schedule(schedule):
    """In each order of streams; what a fault leaves behind is no hazard of the next test."""
    yield
    schedule.forget()


def recorded(work, **options):
    """The graph of `work`, and what it gave; run once before."""
    work()
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph, **options):
        result = work()
    return cuda_graph, result


def trained(graphed):
    """Losses and parameters of steps with dropout, Adam and a schedule."""
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 1))
    update = ag.optim.Adam(model.parameters(), lr=0.1, capturable=True)
    halving, rng = ag.optim.lr_scheduler.ExponentialLR(update, 0.5), np.random.default_rng(0)

    def step(x):
        update.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        update.step()
        return loss

    run, losses = ag.cuda.make_graphed_step(step, warmup=1) if graphed else step, []
    for _ in range(STEPS):
        losses.append(run(ag.tensor(rng.normal(size=(3, 4)).astype(np.float32), device="cuda")))
        halving.step()
    assert not graphed or run.graphs == 1
    return [backend.to_numpy(x.detach().array) for x in (*losses, *model.parameters())]


def agree():
    return all(np.allclose(ours, theirs, rtol=1e-5) for ours, theirs in zip(trained(True), trained(False), strict=True))


def test_without_a_fault_they_agree():
    assert agree()


def test_a_constant_counter(monkeypatch):
    monkeypatch.setattr(Generator, "_taken", lambda self, counters: (self._stream.seed, self._stream.offset))
    assert not agree()


def test_a_constant_learning_rate(monkeypatch):
    options = {}

    def of_the_first_replay(group):
        options.update({} if options else group)
        return options

    monkeypatch.setattr("autograd_gpu.optim.captured.with_numbers", of_the_first_replay)
    assert not agree()


def test_a_ring_without_its_events(schedule, monkeypatch):
    """In the late schedule all copies read what the last replay wrote; in others some may."""
    monkeypatch.setattr(live_numbers, "_RINGS", {0: deque()})
    made = live_numbers._free_buffer
    monkeypatch.setattr(live_numbers, "_free_buffer", lambda module, ring: ring[0] if ring else made(module, ring))
    schedule.configure(schedule="late")
    assert not agree()


def test_numbers_come_from_page_locked_memory(cp, monkeypatch):
    """From other memory the copy would be right, and wait for the replays before it."""
    monkeypatch.setattr(live_numbers, "_RINGS", {0: (ring := deque())})
    trained(True)
    assert ring
    assert all(cp.cuda.pinned_memory.is_memory_pinned(buffer.address) for buffer in ring)


def test_a_pageable_copy_in_a_capture(cp):
    x, host = cp.zeros(4), np.ones(4)

    def copy():
        api = cp.cuda.runtime
        api.memcpyAsync(x.data.ptr, host.ctypes.data, 32, api.memcpyHostToDevice, cp.cuda.get_current_stream().ptr)

    with pytest.raises(CaptureError, match="cudaErrorStreamCaptureUnsupported"):
        recorded(copy)


def test_memory_that_is_not_the_graphs(cp, monkeypatch):
    monkeypatch.setattr(cp.cuda, "using_allocator", lambda malloc: nullcontext())
    x, stream = ag.ones(1000), cp.cuda.Stream(non_blocking=True)
    cuda_graph, _ = recorded(lambda: (x * 2).exp() + 1, stream=stream)
    with stream:
        others = [ag.ones(1000) for _ in range(4)]
    with found("HazardError", "the graph uses memory that is no longer its own, its pool has given it away again"):
        cuda_graph.replay()
    del others


def test_a_pool_that_is_freed_early():
    x = ag.ones(1000)
    cuda_graph, _ = recorded(lambda: (x * 2).exp() + 1)
    cuda_graph.pool().memory.free_all_blocks()
    with found("HazardError", "no longer its own, its pool has given it back to the device"):
        cuda_graph.replay()


def test_an_input_that_the_user_freed(cp):
    inputs = [ag.ones(1000)]
    cuda_graph, _ = recorded(lambda: inputs[0] * 2)
    inputs.clear()
    with found("HazardError", "the graph uses memory that is no longer its own, it was freed"):
        cuda_graph.replay()


def test_a_result_that_is_read_before_the_replay_ends(cp):
    x, stream = ag.ones(1000), cp.cuda.Stream(non_blocking=True)
    cuda_graph, y = recorded(lambda: x * 2)
    cp.cuda.Device().synchronize()
    cuda_graph.replay()
    with stream, found("RaceError", "race: .*nothing orders the two"):
        y.tolist()
    stream.wait_event(cp.cuda.Stream.null.record())
    with stream:
        assert y[0].tolist() == 2
    stream.synchronize()


def test_a_product_by_cupys_own_cublas(cp):
    a = cp.ones((4, 4), np.float32)
    with pytest.raises(CaptureError, match="cannot be captured in a CUDA graph"):
        recorded(lambda: cp.matmul(a, a))


def test_a_workspace_that_is_set_before_the_stream(monkeypatch):
    def take(self):
        if self.handle.stream != self.stream:
            libcublas.call("cublasSetWorkspace_v2", self.number, self.workspace.ptr, self.bytes)
            libcublas.call("cublasSetStream_v2", self.number, self.stream)
            self.handle.stream = self.stream

    a = ag.ones(4, 4)
    monkeypatch.setattr(cublas_handles.Place, "take", take)
    with pytest.raises(CaptureError, match="after cublasSetStream, which drops the workspace"):
        recorded(lambda: a @ a)
    with cublas_handles._LOCK:
        for place in cublas_handles._SHARED.values():
            place.leave()  # the next product sets stream and workspace
