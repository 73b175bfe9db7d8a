"""Page-locked batches, and copies of them for which the CPU does not wait."""

import gc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.transfer import pinned_arrays
from autograd_gpu.utils.data import DataLoader, TensorDataset

cpu, cuda = pytest.mark.cpu, pytest.mark.cuda


@pytest.fixture(autouse=True)
def _nothing_in_flight(device):
    yield
    if device == "cuda":
        runtime.cupy().cuda.Device().synchronize()
    pinned_arrays._in_flight.clear()
    gc.collect()


@cpu
def test_without_a_gpu_a_warning(monkeypatch):
    monkeypatch.setattr(runtime, "is_available", lambda: False)
    loader = DataLoader(TensorDataset(ag.arange(3)), 3, pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found") as caught:
        (batch,) = next(iter(loader))
    assert caught[0].filename == __file__
    assert not batch.is_pinned()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        batch.pin_memory()


@cuda
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_what_its_batches_hold(workers):
    class Pinning:
        def pin_memory(self):
            return "pinned"

    def collate(samples):
        return {"x": ag.tensor(samples, device="cpu"), "list": [ag.ones(2, device="cpu")], "name": "n",
                "own": Pinning(), "array": np.ones(2)}  # fmt: skip

    def collate_in_worker(samples):
        return {**collate(samples), "own": None}

    loader = DataLoader(range(4), 2, collate_fn=collate_in_worker if workers else collate, pin_memory=True,
                        num_workers=workers)  # fmt: skip
    for i, batch in enumerate(loader):
        assert batch["x"].tolist() == [2 * i, 2 * i + 1]
        assert batch["x"].is_pinned()
        assert batch["list"][0].is_pinned()
        assert batch["name"] == "n"
        assert batch["own"] == (None if workers else "pinned")
        assert not pinned_arrays.is_pinned(batch["array"])


@cuda
def test_batches_on_cuda_are_left_alone():
    (batch,) = next(iter(DataLoader(TensorDataset(ag.arange(3, device="cuda")), 3, pin_memory=True)))
    assert batch.is_cuda
    assert not batch.is_pinned()
    with pytest.raises(RuntimeError, match=r"cannot pin 'torch.cuda.LongTensor' only dense CPU tensors can be pinned"):
        batch.pin_memory()


@cuda
@pytest.mark.parametrize("dtype", [ag.float32, ag.bfloat16, ag.float8_e4m3fn, ag.int64])
def test_pinned_tensors_are_copies(dtype):
    x = ag.arange(6, device="cpu").reshape(2, 3).to(ag.float32).to(dtype)
    for tensor in (x, x.to(ag.float32).T.to(dtype)):
        pinned = tensor.pin_memory()
        assert pinned.is_pinned()
        assert not tensor.is_pinned()
        assert (pinned.dtype, pinned.stride()) == (dtype, tensor.stride())
        assert pinned.pin_memory() is pinned
        there = pinned.to("cuda", non_blocking=True)
        assert there.dtype == dtype
        assert there.to(ag.float32).tolist() == tensor.to(ag.float32).tolist()
    assert not ag.ones(0, device="cpu").pin_memory().is_pinned()


@cuda
def test_gradients_pass_through():
    x = ag.ones(3, device="cpu", requires_grad=True)
    (x.pin_memory() * 2).to("cuda", non_blocking=True).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    y = ag.ones(3, device="cpu").pin_memory().requires_grad_()
    y.to("cuda", non_blocking=True).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.emulated
def test_a_copy_is_queued_and_its_memory_waits(schedule, cp):
    """Batches die as soon as they are sent, and the next ones take page-locked memory while the copies are queued."""
    side = cp.cuda.Stream(non_blocking=True)
    rows, sent = ag.arange(6000, device="cpu").reshape(6, 1000), []
    with side:
        for (batch,) in DataLoader(TensorDataset(rows), 1, pin_memory=True):
            sent.append(batch.cuda(non_blocking=True))
            del batch
        assert ag.cat(sent).tolist() == rows.tolist()
    side.synchronize()


@pytest.mark.emulated
def test_the_host_does_not_wait(cp):
    """A queued copy reads what the memory holds when it runs; an ordinary one has read it before."""
    from cupy import _emulation

    _emulation.configure(schedule="late")
    x = ag.zeros(1000, device="cpu").pin_memory()
    ordinary = x.to("cuda")
    x += 1
    queued = x.to("cuda", non_blocking=True)
    x += 1
    assert (ordinary.sum().item(), queued.sum().item()) == (0, 2000)


@cuda
def test_memory_is_let_go_when_copies_are_complete(cp):
    for _ in range(5):
        ag.ones(1000, device="cpu").pin_memory().to("cuda", non_blocking=True)
        cp.cuda.Device().synchronize()
    assert len(pinned_arrays._in_flight) == 1


@cuda
def test_what_is_not_pinned_or_has_gaps_takes_the_ordinary_way():
    x = ag.arange(12.0, device="cpu").reshape(3, 4)
    for tensor in (x, x.pin_memory()[:, ::2], x.pin_memory()[0, 0]):
        assert tensor.to("cuda", non_blocking=True).tolist() == tensor.tolist()
    assert not pinned_arrays._in_flight
