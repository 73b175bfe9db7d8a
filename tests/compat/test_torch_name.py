"""as_torch: the package under the name `torch`, in a process where PyTorch is not imported."""

import subprocess
import sys

import pytest
from checkout import ROOT

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

PROGRAM = """
import importlib.metadata, importlib.util, pickle, sys
import autograd_gpu as ag

before = list(sys.meta_path)
with ag.as_torch() as given:
    import torch
    import torch.nn as nn
    import torch.utils.data, torch.distributed.fsdp, torch.version
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.modules.loss import _Loss
    from torch.utils.data import DataLoader
    assert given is torch and torch.Tensor is ag.Tensor and nn is ag.nn and DataLoader is ag.utils.data.DataLoader
    assert nn.__spec__.name == "autograd_gpu.nn"
    assert torch.__version__ == torch.version.__version__ == importlib.metadata.version("torch") != ag.__version__
    assert torch.__version__ > "2.9" and "2.9" < torch.__version__ and torch.__version__ >= (2, 1)
    assert torch.__version__ < "3" and torch.__version__ == "2.13" and torch.__version__.startswith("2.")
    assert importlib.util.find_spec("torch") and not importlib.util.find_spec("torch.bogus")
    assert not hasattr(torch, "bogus") and "randn" in dir(torch)
    for code in ("import torch.bogus", "from torch import bogus"):
        try:
            exec(code)
        except ImportError:
            continue
        raise AssertionError(code)
    torch.own = 1
    assert not hasattr(ag, "own")
    inner = ag.as_torch()
    inner.undo()
    inner.undo()
    assert "torch" in sys.modules
assert sys.meta_path == before and not [name for name in sys.modules if name.partition(".")[0] == "torch"]
assert pickle.loads(pickle.dumps(torch.ones(1))).item() == 1
sys.modules["torch"] = sys
try:
    ag.as_torch()
except RuntimeError as error:
    assert "imported already" in str(error) and "new process" in str(error)
else:
    raise AssertionError
"""


def test_the_package_as_torch():
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_versions_compare_as_pytorchs():
    torch = pytest.importorskip("torch")
    for text in ("2.13.0", "2.13.0+cpu"):
        ours, theirs = ag.torch_version.TorchVersion(text), torch.torch_version.TorchVersion(text)
        for other in ("2.9", "2.13", "3.0.0", (2, 13), (2, 13, 1), "1.12.1"):
            assert (ours < other, ours >= other) == (theirs < other, theirs >= other), other
