"""Calls with anything but plain tensors: promotion, numbers, arrays, devices, dtypes that are stored only, errors."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


@pytest.mark.cuda
def test_mixed_devices_say_what_to_call():
    with pytest.raises(RuntimeError, match=r"same device, but found cpu and cuda:0; move one with \.to\('cpu'\)"):
        ag.ones(2, device="cpu") * ag.ones(2, device="cuda")


class TestPromotion:
    @pytest.mark.parametrize("a", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
    @pytest.mark.parametrize("b", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
    def test_pairs_against_torch(self, a, b):
        torch = pytest.importorskip("torch")
        for shape_a, shape_b in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
            ours = ag.ones(shape_a, dtype=a) * ag.ones(shape_b, dtype=b)
            theirs = torch.ones(shape_a, dtype=getattr(torch, a)) * torch.ones(shape_b, dtype=getattr(torch, b))
            assert f"torch.{ours.dtype}" == str(theirs.dtype), (shape_a, shape_b)

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
    @pytest.mark.parametrize("number", [True, 2, 2.5])
    def test_numbers_are_weak(self, dtype, number):
        torch = pytest.importorskip("torch")
        for op in (lambda t: t * number, lambda t: number + t, lambda t: t / number, lambda t: t == number):
            theirs = op(torch.ones(2, dtype=getattr(torch, dtype)))
            assert f"torch.{op(ag.ones(2, dtype=dtype)).dtype}" == str(theirs.dtype)

    def test_gradients_come_back_in_the_inputs_dtype(self):
        a = ag.ones(2, dtype=ag.float16, requires_grad=True)
        b = ag.ones(2, dtype=ag.float32, requires_grad=True)
        (a * b).sum().backward()
        assert a.grad.dtype == ag.float16
        assert b.grad.dtype == ag.float32

    def test_bfloat16_gradient(self):
        a = ag.ones(3, dtype=ag.bfloat16, requires_grad=True)
        (ag.tanh(a * 2.0) / 3 + a.exp() * a).sum().backward()
        assert a.grad.dtype == ag.bfloat16


class TestNumbers:
    def test_half_precision_beside_a_number(self):
        x = ag.tensor([60000.0, 1000.0], dtype=ag.float16)
        assert (x / 1e6).tolist() == pytest.approx([0.06, 0.001], rel=1e-3)
        assert (x * 1e-8).dtype == ag.float16
        x.requires_grad_()
        assert grad((x * 1e-3).sum(), x)[0].dtype == ag.float16

    def test_numpy_scalars_count_as_numbers(self):
        assert (ag.tensor(1.0) * np.float64(0.5)).dtype == ag.float32
        assert (ag.arange(3) / np.float64(2)).dtype == ag.float32
        assert (np.float64(2) * ag.ones(2)).dtype == ag.float32

    def test_where_of_numbers(self):
        mask = ag.tensor([True, False])
        assert ag.where(mask, 1.0, 0).tolist() == [1.0, 0.0]
        assert ag.where(mask, 1.0, 0.0).dtype == ag.float32
        assert ag.where(mask, 1, 0).dtype == ag.int64

    def test_integers_out_of_range_compare(self):
        x = ag.tensor([1, 255], dtype=ag.uint8)
        assert (x < 300).tolist() == [True, True]
        assert (x == -1).tolist() == [False, False]

    def test_bits(self):
        x = ag.tensor([6, 5])
        assert (x & 3).tolist() == [2, 1]
        assert (~x).tolist() == [-7, -6]
        assert (~ag.tensor([True])).tolist() == [False]
        with pytest.raises(RuntimeError, match="floating point"):
            ag.ones(2) & ag.ones(2)

    def test_nan_gradients(self):
        for n in (2, 600):
            x = ag.full((n,), float("nan"), requires_grad=True)
            assert grad(ag.relu(x).sum(), x)[0].tolist() == [1.0] * n
        x = leaf(1.0, float("nan"), 2.0)
        assert grad(x.max(), x)[0].tolist() == [0.0, 1.0, 0.0]


def test_moves_but_does_not_compute():
    t = ag.tensor([[2.0, 4.0]]).to(ag.float8_e4m3fn)
    for moved in (t.clone(), t.reshape(2, 1), t.T, ag.cat([t, t]), t.expand(3, 2), next(iter(t)), t.unsqueeze(0)):
        assert moved.dtype == ag.float8_e4m3fn
    assert ag.cat([t, t]).to(ag.float32).tolist() == [[2.0, 4.0]] * 2
    t.fill_(1.5)
    t[0, 1] = 2.0
    assert t.to(ag.float32).tolist() == [[1.5, 2.0]]
    with pytest.raises(TypeError, match="no arithmetic"):
        t.clamp_(0, 1)


def test_half_precision_in_place_beside_a_number():
    for dtype in (ag.float16, ag.bfloat16):
        x = ag.full((2,), 60000.0, dtype=dtype)
        assert x.mul_(1e-8).dtype == dtype
        assert x.tolist() == pytest.approx([6e-4] * 2, rel=1e-2)


class TestStorageDtypes:
    """Nothing is computed in float8, in whatever way it is asked for."""

    F8 = ag.float8_e4m3fn

    @pytest.mark.parametrize("make", [
        lambda f8: ag.ones(3).sum(dtype=f8), lambda f8: ag.ones(3).prod(0, dtype=f8),
        lambda f8: ag.ones(3).cumsum(0, dtype=f8), lambda f8: ag.ones(3).mean(dtype=f8), lambda f8: ag.eye(2, dtype=f8),
        lambda f8: ag.arange(3, dtype=f8), lambda f8: ag.linspace(0, 1, 3, dtype=f8),
        lambda f8: ag.randint(0, 3, (2,), dtype=f8), lambda f8: ag.randperm(3, dtype=f8),
        lambda f8: ag.bernoulli(ag.zeros(2).to(f8), 0.5), lambda f8: ag.zeros(2, 2).to(f8).fill_diagonal_(1.0),
    ])  # fmt: skip
    def test_is_refused(self, make):
        with pytest.raises(TypeError, match="is a storage dtype"):
            make(self.F8)


def test_errors_name_the_op():
    with pytest.raises(RuntimeError, match="log_softmax: dtype must be floating point"):
        ag.nn.functional.log_softmax(ag.ones(2), 0, dtype=ag.int64)
    with pytest.raises((RuntimeError, IndexError), match="cat"):
        ag.cat([ag.ones(2), ag.ones(2)], 2**70)


def test_refused_arguments_of_methods():
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        ag.ones(2).copy_(ag.ones(3))
    with pytest.raises(RuntimeError, match="0-dimension value tensor"):
        ag.ones(2).fill_(ag.ones(2))
    with pytest.raises(TypeError, match="NoneType"):
        ag.ones(2)[0] = None
    with pytest.raises(TypeError, match="must be int, not tuple"):
        ag.ones(2, 3).argmax((0, 1))
