"""Small names that PyTorch's programs use."""

import copy
import pickle
import threading

import numpy as np
import pytest

import autograd_gpu as ag


def test_dtypes_have_their_other_names():
    torch = pytest.importorskip("torch")
    for name in ("float", "double", "half", "long", "int", "short", "bool", "bfloat16", "uint8"):
        ours = ag.tensor([1], dtype=getattr(ag, name)).dtype
        assert str(ours) == str(torch.tensor([1], dtype=getattr(torch, name)).dtype).removeprefix("torch.")
        assert isinstance(getattr(ag, name), ag.dtype)
        assert isinstance(ours, ag.dtype)
    assert ag.ones(1).to(ag.double).dtype is ag.float64
    assert ag.ones(1).type(ag.long).dtype is ag.int64


def test_all_names_leaves_the_builtins_alone():
    names = {}
    exec("from autograd_gpu import *", names)
    assert not {"float", "int"} & set(names)


class TestAttributes:
    def test_parameters_take_attributes(self):
        p = ag.nn.Parameter(ag.ones(2))
        p.is_bias = True
        net = ag.nn.Linear(2, 2)
        net.weight.tag = "a"
        lazy = ag.nn.LazyLinear(2)
        lazy.weight.tag = "lazy"
        lazy(ag.ones(1, 3))
        assert p.is_bias
        assert net.double().weight.tag == "a"
        assert lazy.weight.tag == "lazy"
        assert [q for q in net.parameters() if getattr(q, "tag", None)] == [net.weight]
        assert not hasattr(p, "tag")
        (p * 2).sum().backward()
        assert p.grad.tolist() == [2.0, 2.0]

    def test_copies_keep_them_as_pytorch_does(self):
        torch = pytest.importorskip("torch")
        for m in (torch, ag):
            p = m.nn.Parameter(m.ones(2))
            p.tag = [1]
            assert pickle.loads(pickle.dumps(p)).tag == [1]
            assert copy.deepcopy(p).__dict__ == {}  # PyTorch forgets them, too
            assert copy.copy(p).tag is p.tag

    def test_tensors_take_them_too(self):
        torch = pytest.importorskip("torch")
        for m in (torch, ag):
            x = m.ones(2)
            x.tag = [1]
            copied, again = copy.deepcopy(x), pickle.loads(pickle.dumps(x))
            assert (copied.tag, again.tag, copied.tag is x.tag, copy.copy(x).tag is x.tag) == ([1], [1], False, True)
            assert not hasattr(x + 1, "tag")
            assert not hasattr(x.detach(), "tag")


class TestDeviceContexts:
    def test_factories_follow_the_innermost(self):
        before = ag.get_default_device()
        with ag.device("cpu") as device:
            assert (device, ag.get_default_device()) == (ag.device("cpu"), ag.device("cpu"))
            made = (ag.ones(1), ag.tensor([1.0]), ag.rand(2), ag.arange(3), ag.nn.Linear(1, 1).weight, ag.eye(2))
            assert {str(t.device) for t in made} == {"cpu"}
            with device, pytest.raises(KeyError):  # the same object again, and left by an exception
                raise KeyError
        assert ag.get_default_device() == before

    def test_other_threads_are_left_alone(self):
        seen = []
        other = "cpu" if ag.get_default_device().type == "cuda" else "cuda"
        with ag.device(other):
            thread = threading.Thread(target=lambda: seen.append(ag.get_default_device()))
            thread.start()
            thread.join()
            assert ag.get_default_device() == ag.device(other)
        assert seen == [ag.get_default_device()]


class TestNew:
    @pytest.mark.parametrize("make", [
        lambda m, x: x.new(), lambda m, x: x.new(2, 3).zero_(), lambda m, x: x.new([1, 2]), lambda m, x: x.new((2, 3)),
        lambda m, x: x.new(m.Size([2, 3])).zero_(), lambda m, x: x.new(np.ones(2)), lambda m, x: x.new(x),
        lambda m, x: x.new(size=(2, 3)).zero_(), lambda m, x: x.new([]), lambda m, x: x.new([[1, 2], [3, 4]]),
        lambda m, x: x.new(3, device="cpu").zero_(), lambda m, x: x.new(x.shape).zero_(),
    ])  # fmt: skip
    @pytest.mark.parametrize("dtype", ["float64", "int32"])
    def test_like_pytorch(self, make, dtype):
        torch = pytest.importorskip("torch")
        ours, theirs = (make(m, m.ones(2, dtype=getattr(m, dtype))) for m in (ag, torch))
        assert (ours.tolist(), ours.shape) == (theirs.tolist(), tuple(theirs.shape))
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.") == dtype

    def test_refused(self):
        torch = pytest.importorskip("torch")
        for m in (torch, ag):
            x = m.ones(2, dtype=m.float64)
            for bad in (2.5, True, m.ones(2), "a", None):
                with pytest.raises(TypeError):
                    x.new(bad)


@pytest.mark.filterwarnings("ignore:.*set_default_tensor_type")
def test_default_tensor_types():
    torch = pytest.importorskip("torch")
    device = ag.get_default_device()
    try:
        for name in ("torch.DoubleTensor", "torch.HalfTensor", "torch.BFloat16Tensor", "torch.FloatTensor"):
            ag.set_default_tensor_type(name)
            torch.set_default_tensor_type(name)
            assert str(ag.ones(1).dtype) == str(torch.ones(1).dtype).removeprefix("torch.")
            assert ag.ones(1).device == ag.device("cpu")
        for bad in ("torch.LongTensor", "FooTensor", "torch.xpu.FloatTensor", 3):
            with pytest.raises(TypeError):
                ag.set_default_tensor_type(bad)
        with pytest.warns(UserWarning, match="deprecated"):
            ag.set_default_tensor_type(ag.float64)
        assert ag.get_default_dtype() == ag.float64
        ag.set_default_tensor_type("torch.cuda.FloatTensor")
        assert (ag.get_default_device(), ag.get_default_dtype()) == (ag.device("cuda"), ag.float32)
    finally:
        ag.set_default_dtype(ag.float32)
        torch.set_default_dtype(torch.float32)
        ag.set_default_device(device)


def test_settings_of_cudnn_are_accepted():
    import autograd_gpu.backends.cudnn as cudnn

    for name in ("deterministic", "benchmark", "enabled", "allow_tf32"):
        before = getattr(cudnn, name)
        for value in (not before, before):
            setattr(ag.backends.cudnn, name, value)
            assert getattr(cudnn, name) is value
    assert not cudnn.is_available()
    assert cudnn.version() is None


def test_members_of_a_module_are_walked_backwards():
    torch = pytest.importorskip("torch")
    for m in (torch, ag):
        net = m.nn.Sequential(m.nn.Linear(1, 1), m.nn.Tanh())
        assert [type(child).__name__ for child in reversed(net._modules.values())] == ["Tanh", "Linear"]
        assert list(reversed(net._modules)) == list(reversed(net._modules.keys())) == ["1", "0"]
        assert [name for name, _ in reversed(net[0]._parameters.items())] == ["bias", "weight"]
        assert list(net[0]._parameters) == ["weight", "bias"]


def test_datasets_may_say_what_their_items_are():
    class Squares(ag.utils.data.Dataset[int]):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return i * i

    loader: ag.utils.data.DataLoader[int] = ag.utils.data.DataLoader(Squares(), batch_size=3)
    assert [batch.tolist() for batch in loader] == [[0, 1, 4]]


SPACES = [ag, ag.nn, ag.nn.utils, ag.optim, ag.optim.lr_scheduler, ag.utils, ag.utils.data, ag.cuda, ag.hooks,
          ag.random]  # fmt: skip


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_dir_shows_what_is_public(space):
    shown = dir(space)
    assert set(space.__all__) <= set(shown)
    assert all(hasattr(space, name) for name in shown)
    modules = {name for name in shown if isinstance(getattr(space, name), type(ag))}
    assert modules <= {*space.__all__, "parameter"}
