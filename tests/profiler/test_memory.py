"""Live bytes by category: they sum to what is there, and to what the memory statistics say."""

from __future__ import annotations

import gc

import pytest
from profiled import mlp, of_kind

import autograd_gpu as ag
from autograd_gpu.profiler import profile
from autograd_gpu.profiler.memory import CATEGORIES


def last(prof, device):
    return prof.live_bytes()[-1][1]["cpu" if device == "cpu" else "cuda:0"]


def nbytes(tensors, device):
    return sum(t.nbytes if device == "cpu" else -(-t.nbytes // 512) * 512 for t in tensors)


def test_a_training_step(device):
    step = mlp(device)
    parameters = list(step.model.parameters())
    with profile(profile_memory=True) as prof:
        step()
    result = last(prof, device)
    assert result["parameters"] == nbytes(parameters, device)
    assert result["gradients"] == nbytes([p.grad for p in parameters], device)
    state = [v for s in step.optimizer.state.values() for v in s.values() if isinstance(v, ag.Tensor)]
    assert result["optimizer"] == nbytes([t for t in state if t.is_cuda == (device == "cuda")], device)
    assert result["saved"] == 0
    if device == "cpu":
        assert result["other"] == step.x.nbytes


@pytest.mark.cuda
def test_the_categories_sum_to_the_pool():
    step = mlp("cuda")
    with profile(profile_memory=True) as prof:
        step()
    assert sum(last(prof, "cuda").values()) == ag.cuda.memory_allocated()


def test_saved_tensors_live_until_backward(device):
    x = ag.ones(64, 64, requires_grad=True)
    with profile(profile_memory=True) as prof:
        y = x.exp().sin().sum()
        y.backward()
    size = 64 * 64 * 4
    saved = [totals["cpu" if device == "cpu" else "cuda:0"]["saved"] for _, totals in prof.live_bytes()]
    assert max(saved) == size  # exp saves its result, which is what sin saves
    assert saved[-1] == 0
    assert [e.self_memory_usage for e in of_kind(prof, "op")] == [size, size, nbytes([y], device)]


def test_a_graph_that_is_dropped_saves_nothing():
    x = ag.ones(64, requires_grad=True)
    with profile(profile_memory=True) as prof:
        y = x.exp()
        held = prof._recorder.ledger.totals()
        del y
        gc.collect()
    assert next(iter(held.values()))[CATEGORIES.index("saved")] >= 256
    assert all(totals["saved"] == 0 for totals in prof.live_bytes()[-1][1].values())


def test_memory_hooks_save_fewer_bytes():
    x = ag.randn(256, 256, requires_grad=True)
    hook = ag.hooks.quantize(ag.float8_e4m3fn)
    with profile(profile_memory=True) as prof, hook:
        y = x.tanh().sum()
    (packed,) = of_kind(prof, "pack")
    assert packed.facts["held"] == hook.bytes_held
    assert sum(totals["saved"] for totals in prof.live_bytes()[-1][1].values()) == hook.bytes_held
    y.backward()


def test_offloading_shows_both_ways(device):
    x = ag.randn(256, 256, requires_grad=True)
    with profile(profile_memory=True) as prof, ag.hooks.offload() as hook:
        y = x.tanh().sum()
        y.backward()
    del hook
    packs = of_kind(prof, "pack")
    assert [e.facts["bytes"] for e in packs] == [256 * 256 * 4]
    assert [e.facts["held_on_host"] for e in packs] == [256 * 256 * 4 if device == "cuda" else 0]
    copies = {(e.name, e.facts["bytes"]) for e in of_kind(prof, "copy")}
    assert copies == ({("device to host", 256 * 256 * 4)} if device == "cuda" else set())


@pytest.mark.cuda
def test_copies_are_counted():
    x = ag.ones(1000, device="cpu")
    with profile() as prof:
        y = x.to("cuda")
        y.cpu()
    assert [(e.name, e.facts["bytes"]) for e in of_kind(prof, "copy")] == [
        ("host to device", 4000), ("device to host", 4000)]  # fmt: skip
