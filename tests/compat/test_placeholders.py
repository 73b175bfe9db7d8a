"""Names outside of the aims: they can be imported and subclassed, are PyTorch's, and raise when they are called."""

import importlib

import pytest

import autograd_gpu as ag
from autograd_gpu.compat import placeholders

pytestmark = pytest.mark.cpu


@pytest.mark.filterwarnings("ignore")  # of PyTorch's imports
@pytest.mark.parametrize("path", placeholders.NAMES)
def test_names_are_pytorchs_and_raise_when_called(path):
    theirs = pytest.importorskip("torch")
    theirs = importlib.import_module(f"torch.{path}".rstrip("."))
    ours = importlib.import_module(f"autograd_gpu.{path}".rstrip("."))
    for name, there in placeholders.of(path).items():
        assert hasattr(theirs, name), name
        assert getattr(ours, name) is there
        with pytest.raises(NotImplementedError, match=rf"{name} is a name only, .*: \w"):
            there(1)


def test_classes_keep_their_places():
    nn = ag.nn
    assert nn.Conv2d is nn.modules.Conv2d is nn.modules.conv.Conv2d
    assert issubclass(nn.ConvTranspose1d, nn.modules.conv._ConvNd)
    assert issubclass(nn.modules.pooling.MaxPool2d, nn.Module)
    assert not isinstance(nn.Linear(1, 1), (nn.Conv1d, nn.MaxPool2d, nn.parallel.DistributedDataParallel))

    class Mine(nn.Conv2d):
        pass

    with pytest.raises(NotImplementedError, match=r"nn\.Conv2d is a name only"):
        Mine(1, 2, 3)


def test_data_parallel_has_one_device():
    net = ag.nn.Linear(2, 1)
    x = ag.ones(3, 2)
    for parallel in (ag.nn.DataParallel(net), ag.nn.parallel.DataParallel(net, device_ids=[0])):
        assert parallel(x).tolist() == ag.nn.parallel.data_parallel(net, x).tolist() == net(x).tolist()
        assert parallel.module is net
    with pytest.raises(NotImplementedError, match=r"devices \[0, 1\]"):
        ag.nn.DataParallel(net, [0, 1])
