"""Methods that write into their tensor: each is its out-of-place method, written back."""

import operator

import numpy as np
import pytest
from inplace_cases import ARGUMENTS, BINARY, FLOAT, WHOLE, WITH_INTEGERS, WRITTEN_BACK

import autograd_gpu as ag
from autograd_gpu.core.declare.public import NAMED

ELSEWHERE = ("shape.diagonal", "indexing.masked", "indexing.index_put", "indexing.scatter")  # in test_placing.py
TESTED_HERE = [named for named in WRITTEN_BACK if not named.function.__module__.endswith(ELSEWHERE)]
NAMES = [name[:-1] for named in TESTED_HERE for name in named.inplace]
VIEWED = [name[:-1] for named in NAMED if named.view for name in named.inplace]


def arguments(name, device):
    operands = ARGUMENTS.get(name, ([[2, 1]] if name in WITH_INTEGERS else [[0.5, 2.0]],) if name in BINARY else ())
    return [ag.tensor(a, device=device, dtype=None if name in WITH_INTEGERS else ag.float64) if isinstance(a, list)
            else a for a in operands]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_written_back(name, device):
    values = {"addmv": FLOAT[0], "baddbmm": FLOAT[None]}.get(name, WHOLE if name in WITH_INTEGERS else FLOAT)
    values = values + 1 if name in ("acosh", "arccosh", "mvlgamma") else values
    x, args = ag.tensor(values, device=device), arguments(name, device)
    expected, memory = getattr(x, name)(*args).to(x.dtype), x._array
    assert getattr(x, f"{name}_")(*args) is x
    assert x._array is memory
    assert x._version == 1
    np.testing.assert_array_equal(x.numpy(force=True), expected.numpy(force=True))


@pytest.mark.parametrize("name", VIEWED)
def test_viewed(name, device):
    x = ag.ones(1, 3, device=device)
    args = {"t": (), "squeeze": (), "unsqueeze": (0,), "as_strided": ((3, 1), (1, 1))}.get(name, (0, 1))
    other, expected = x.view(3), getattr(x, name)(*args).shape
    assert getattr(x, f"{name}_")(*args) is x
    assert x.shape == expected
    other.zero_()
    assert x.sum().item() == 0
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place"):
        getattr(ag.ones(1, 3, device=device, requires_grad=True), f"{name}_")(*args)


OPERATORS = ["iadd", "isub", "imul", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_write(name, device):
    x = ag.tensor([5, 2, 7], device=device)
    expected, same = getattr(operator, name)(np.array([5, 2, 7]), 2), x
    same = getattr(operator, name)(same, 2)
    assert same is x
    assert x.tolist() == expected.tolist()


def test_refusals(device):
    whole = ag.tensor([1, 2], device=device)
    for call in (whole.sqrt_, lambda: whole.clamp_(min=0.5), lambda: whole.pow_(0.5), lambda: whole.div_(2)):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
            call()
    with pytest.raises(RuntimeError, match=r"pow_: output with shape \[2\] doesn't match the broadcast shape"):
        whole.pow_(ag.ones(3, 2, dtype=ag.int64, device=device))
    assert whole.tolist() == [1, 2]


def test_copy_takes_non_blocking(device):
    x = ag.ones(2, device=device)
    assert x.copy_(ag.zeros(2), non_blocking=True).tolist() == [0.0, 0.0]


def test_rounded_division(device):
    x = ag.tensor([7, -7], device=device)
    assert x.clone().div_(2, rounding_mode="floor").tolist() == [3, -4]
    assert x.clone().divide_(2, rounding_mode="trunc").tolist() == [3, -3]


def test_every_method_of_pytorch_that_has_an_op():
    torch = pytest.importorskip("torch")
    theirs = {name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_")}
    missing = {name for name in theirs if hasattr(ag.Tensor, name[:-1]) and not hasattr(ag.Tensor, name)}
    assert not missing - {"index_", "map_", "set_"}


@pytest.mark.parametrize("write", [lambda v: v.zero_(), lambda v: v.fill_(2.0), lambda v: v.copy_(ag.ones(2)),
                                   lambda v: v.view(2).zero_(), lambda v: v[:].fill_(3.0)])
def test_a_view_that_constants_were_written_to_has_no_gradient(write, device):
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = x * 1
    v, w = h[:2], h[1:]
    write(v)
    ((v * v).sum() + v.sum() + w.sum()).backward()
    assert x.grad.tolist() == [0, 0, 1]
