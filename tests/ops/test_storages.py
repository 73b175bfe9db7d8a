"""Storages say where memory lies; safetensors.torch writes and reads files by them."""

import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT

import autograd_gpu as ag


def test_tensors_that_share_memory_have_one_storage(device):
    x = ag.arange(6.0, device=device).reshape(2, 3)
    whole = x.untyped_storage()
    assert (whole.nbytes(), len(whole), whole.size(), whole.device) == (24, 24, 24, x.device)
    for view in (x[1], x.mT[1:], x.detach(), x.as_strided((2,), (2,))):
        assert view.untyped_storage().data_ptr() == whole.data_ptr()
    assert x.clone().untyped_storage().data_ptr() != whole.data_ptr()
    assert (x[1].storage().size(), len(x.storage()), x.storage().dtype) == (6, 6, np.float32)


def test_parts_are_bytes(device):
    x = ag.arange(4.0, device=device)
    assert ag.asarray(x[2:].untyped_storage()[4:12], dtype=ag.uint8).view(ag.float32).tolist() == [1.0, 2.0]


@pytest.mark.cpu
def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    private, shared = ag.UntypedStorage.from_file(path, nbytes=4), ag.UntypedStorage.from_file(path, shared=True)
    assert (private.nbytes(), shared.nbytes()) == (4, 8)
    np.asarray(private)[0] = np.asarray(shared)[1] = 255
    assert path.read_bytes() == bytes([0, 255, *range(2, 8)])


SAFETENSORS = """
import autograd_gpu as ag
ag.as_torch()
import torch
from safetensors.torch import load_file, load_model, save_file, save_model

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)).to(torch.bfloat16)
save_file(model.state_dict(), "model.safetensors")
loaded = load_file("model.safetensors")
assert loaded.keys() == model.state_dict().keys()
assert all(torch.equal(loaded[key], value) for key, value in model.state_dict().items())
model.tied = model[0]
save_model(model, "tied.safetensors")
with torch.no_grad():
    model[0].weight.zero_()
load_model(model, "tied.safetensors")
assert torch.equal(model.tied.weight, loaded["0.weight"])
try:
    save_file({"a": model[0].weight.detach(), "b": model[0].weight.detach()[1:]}, "shared.safetensors")
except RuntimeError as error:
    assert "share memory" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.cpu
def test_safetensors_of_pytorch(tmp_path):
    pytest.importorskip("safetensors")
    done = subprocess.run([sys.executable, "-W", "error", "-c", SAFETENSORS], cwd=tmp_path, capture_output=True,
                          text=True, env={"PYTHONPATH": str(ROOT), "PATH": ""})  # fmt: skip
    assert done.returncode == 0, done.stderr
