"""PyTorch's old tensor types and constructors, with PyTorch as oracle."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.ops.creation.tensor_types import CPU_TYPES, CUDA_TYPES, TYPE_NAMES

MADE = {
    "sizes": lambda m: m.FloatTensor(2, 3).zero_(),
    "no argument": lambda m: m.DoubleTensor(),
    "a list": lambda m: m.FloatTensor([1, 2]),
    "a nested list": lambda m: m.DoubleTensor([[1, 2], [3, 4]]),
    "a tuple": lambda m: m.FloatTensor((2, 3)),
    "a range": lambda m: m.LongTensor(range(3)),
    "an array": lambda m: m.FloatTensor(np.array([1.5, 2.5])),
    "an array of floats as integers": lambda m: m.LongTensor(np.array([1.5, 2.0])),
    "bools": lambda m: m.BoolTensor([1, 0]),
    "bytes": lambda m: m.ByteTensor([True, 200]),
    "tensors": lambda m: m.FloatTensor([m.tensor(1.0), m.tensor(2.0)]),
    "a NumPy integer as size": lambda m: m.IntTensor(np.int64(3)).zero_(),
    "a Size": lambda m: m.ShortTensor(m.Size([2, 1])).zero_(),
    "size=": lambda m: m.HalfTensor(size=(2, 1)).zero_(),
    "device=": lambda m: m.CharTensor([1], device="cpu"),
    "Tensor of data": lambda m: m.Tensor([1, 2]),
    "Tensor of sizes": lambda m: m.Tensor(2, 3).zero_(),
    "Tensor of an array": lambda m: m.Tensor(np.ones(2)),
    "Tensor of nothing": lambda m: m.Tensor(),
    "data=": lambda m: m.Tensor(data=[1, 2]),
    "Tensor of integers": lambda m: m.Tensor(m.ones(2, dtype=m.int64)),
}
TYPED = {
    "a name": lambda m, x: x.type("torch.LongTensor"),
    "a class": lambda m, x: x.type(m.DoubleTensor),
    "a dtype": lambda m, x: x.type(m.float16),
    "Tensor": lambda m, x: x.type(m.Tensor),
    "Tensor by name": lambda m, x: x.type("torch.Tensor"),
}
REFUSED = {
    "a float": lambda m: m.FloatTensor(2.5),
    "a bool": lambda m: m.Tensor(True),
    "None": lambda m: m.FloatTensor(None),
    "a string": lambda m: m.FloatTensor("a"),
    "another dtype": lambda m: m.FloatTensor(m.ones(2, dtype=m.int64)),
    "a tensor as size": lambda m: m.FloatTensor(m.tensor(3)),
    "two tensors": lambda m: m.FloatTensor(m.ones(2), m.ones(2)),
    "a ragged list": lambda m: m.FloatTensor([[1, 2], [3]]),
    "dtype=": lambda m: m.FloatTensor([1], dtype=m.float32),
    "a negative size": lambda m: m.FloatTensor(-1),
    "another device": lambda m: m.FloatTensor([1], device="cuda"),
    "a wrong name": lambda m: m.ones(2).type("FooTensor"),
    "a name without torch": lambda m: m.ones(2).type("LongTensor"),
}


def described(tensor):
    return tensor.tolist(), str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)


@pytest.fixture(autouse=True)
def _on_the_cpu():
    """PyTorch's default device is the CPU."""
    with ag.device("cpu"):
        yield


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_constructors(make):
    torch = pytest.importorskip("torch")
    assert described(make(ag)) == described(make(torch))


@pytest.mark.parametrize("convert", TYPED.values(), ids=TYPED)
def test_type(convert):
    torch = pytest.importorskip("torch")
    ours, theirs = (convert(m, m.tensor([1.5, 2.0])) for m in (ag, torch))
    assert described(ours) == described(theirs)
    assert (ours.type(), ag.typename(ours)) == (theirs.type(), torch.typename(theirs))


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refused(call):
    torch = pytest.importorskip("torch")
    with pytest.raises((TypeError, ValueError, RuntimeError)) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(ag)


def test_a_tensor_of_the_type_shares_its_memory_and_history():
    for m in (pytest.importorskip("torch"), ag):
        x = m.ones(2, requires_grad=True)
        for y in (m.Tensor(x), m.FloatTensor(x), x.new(x)):
            assert y is not x
            assert y.data_ptr() == x.data_ptr()
            (g,) = m.autograd.grad(y.sum(), x)
            assert g.tolist() == [1, 1]


@pytest.mark.parametrize("name", CPU_TYPES)
def test_isinstance(name):
    torch = pytest.importorskip("torch")
    for m in (torch, ag):
        for other in TYPE_NAMES:
            x = m.ones(1).to(getattr(m, str(other).removesuffix("_")))
            assert isinstance(x, getattr(m, name)) == (TYPE_NAMES[other] == name)
            assert not isinstance(x, getattr(m.cuda, name))
        assert not isinstance(3, getattr(m, name))
        assert getattr(m, name).__name__ == getattr(m.cuda, name).__name__ == name
        assert not getattr(m, name).is_cuda
        assert getattr(m.cuda, name).is_cuda
    assert isinstance(ag.nn.Parameter(ag.ones(1)), ag.FloatTensor)


@pytest.mark.cuda
def test_types_of_cuda():
    x = ag.cuda.FloatTensor([1, 2])
    assert (x.device.type, x.dtype, x.tolist()) == ("cuda", ag.float32, [1, 2])
    assert isinstance(x, ag.cuda.FloatTensor)
    assert not isinstance(x, ag.FloatTensor)
    assert x.type() == ag.typename(x) == "torch.cuda.FloatTensor"
    assert x.type("torch.LongTensor").device.type == "cpu"
    assert x.type(ag.float64).device.type == "cuda"
    assert ag.ones(1).type(ag.cuda.LongTensor).type() == "torch.cuda.LongTensor"
    with pytest.raises(TypeError, match="expected a tensor of float32 on cuda:0, got float32 on cpu"):
        x.new(ag.ones(2))
    assert set(CUDA_TYPES) <= set(ag.cuda.__all__)


@pytest.mark.cpu
@pytest.mark.filterwarnings("ignore:.*set_default_tensor_type")
def test_default_type_of_a_class():
    torch = pytest.importorskip("torch")
    try:
        for m in (torch, ag):
            m.set_default_tensor_type(m.DoubleTensor)
            assert m.ones(1).type() == m.Tensor([1]).type() == "torch.DoubleTensor"
    finally:
        torch.set_default_dtype(torch.float32)
        ag.set_default_dtype(ag.float32)


class Labelled(ag.Tensor):
    def __new__(cls, data, label):
        return super().__new__(cls, data)

    def __init__(self, data, label):
        self.label = label


def test_subclasses_of_tensor():
    """Made by the class; what operations make of them are plain tensors, unlike PyTorch's."""
    x = Labelled([1.0, 2.0], "weights")
    assert (type(x), x.label, x.tolist()) == (Labelled, "weights", [1, 2])
    assert type(x * 2) is ag.Tensor
    source = ag.ones(2)
    shared = Labelled(source, "shared")
    source.add_(1)
    assert shared.tolist() == [2, 2]
    assert shared._version == 1
    with pytest.raises(RuntimeError, match=r"Labelled is made as a leaf.*detach\(\) it first"):
        Labelled(ag.ones(1, requires_grad=True) * 2, "result")


def test_typename_of_other_objects():
    torch = pytest.importorskip("torch")
    for value in (3, [], "a", None, int, np.ones(1), np.sum):
        assert ag.typename(value) == torch.typename(value)
    assert ag.typename(ag.nn.ReLU()) == "autograd_gpu.nn.activation.ReLU"
