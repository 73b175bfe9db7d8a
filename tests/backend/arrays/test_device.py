"""The Device of arrays: one object for each device."""

import copy
import pickle

import pytest

import autograd_gpu as ag
from autograd_gpu.backend.arrays import placement
from autograd_gpu.backend.arrays.device import Device, cuda


@pytest.mark.cpu
def test_a_cuda_device_is_one_object():
    assert cuda(1) is cuda(1)
    assert cuda(1) == Device("cuda:1") == Device("cuda", 1)
    assert hash(cuda(1)) == hash(Device("cuda:1"))
    assert cuda(1) != cuda(0)
    for other in (copy.deepcopy(cuda(1)), pickle.loads(pickle.dumps(cuda(1)))):
        assert other == cuda(1)


@pytest.mark.cpu
def test_a_number_is_that_of_a_cuda_device():
    assert ag.device(1) == Device("cuda:1")
    for wrong in (-1, True, 1.0):
        with pytest.raises(RuntimeError, match="invalid device"):
            ag.device(wrong)


def test_the_device_meta_is_a_name_only(device):
    meta, x = ag.device("meta"), ag.ones(2, device=device)
    assert str(meta) == "meta"
    assert x.device != meta
    makers = [
        lambda: ag.zeros(2, device=meta), lambda: ag.rand(2, device=meta), lambda: ag.arange(2, device=meta),
        lambda: ag.tensor([1.0], device=meta), lambda: ag.empty_like(x, device=meta), lambda: x.to("meta"),
        lambda: ag.nn.Linear(1, 1, device=meta), lambda: ag.nn.Linear(1, 1).to("meta"), meta.__enter__,
        lambda: ag.set_default_device(meta), lambda: ag.Generator(meta), lambda: x.new_zeros(2, device=meta),
    ]  # fmt: skip
    for make in makers:
        with pytest.raises(NotImplementedError, match=r"name only, for comparisons.* on the CPU, or .*deepcopy"):
            make()


@pytest.mark.cuda
def test_tensors_go_to_a_device_by_its_number():
    x = ag.ones(2, device="cpu")
    assert x.to(0).device == Device("cuda:0")
    assert next(ag.nn.Linear(1, 1, device="cpu").to(0).parameters()).is_cuda


@pytest.mark.cuda
def test_tensors_of_a_device_share_it(device, monkeypatch):
    x = ag.ones(2, device=device)
    first = x.device
    monkeypatch.setattr(Device, "__init__", lambda self, *words: pytest.fail("a name is read"))
    assert x.device is first
    assert (x + 1)[:1].device is first
    assert placement.resolve(first) is first
