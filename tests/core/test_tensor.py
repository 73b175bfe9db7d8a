"""Tensor: data in and out, dtypes, interplay with NumPy, printing."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import autograd_gpu as ag


class Exporter:
    """What another library sees of a tensor."""

    def __init__(self, tensor):
        self.export, self.device = tensor.__dlpack__, tensor.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        return self.export(**kwargs)

    def __dlpack_device__(self):
        return self.device


class TestFactories:
    def test_dtypes_of_python_data(self):
        assert ag.tensor(1.5).dtype == ag.float32
        assert ag.tensor([1, 2]).dtype == ag.int64
        assert ag.tensor([True]).dtype == ag.bool
        assert ag.tensor([1, 2.0]).dtype == ag.float32
        assert ag.tensor(np.zeros(2)).dtype == ag.float64
        assert ag.tensor([np.float64(1)]).dtype == ag.float64
        assert ag.tensor([ag.tensor(1.0), ag.tensor(2.0)]).tolist() == [1.0, 2.0]

    @pytest.mark.cpu
    def test_tensor_copies_and_as_tensor_shares(self):
        a = np.zeros(3)
        assert ag.as_tensor(a).array is a
        assert ag.from_numpy(a).array is a
        assert not np.shares_memory(ag.tensor(a).array, a)
        assert not np.shares_memory(ag.tensor(a[::2]).array, a)
        t = ag.zeros(2)
        assert not np.shares_memory(ag.tensor(t).array, t.array)

    def test_shapes(self):
        shapes = [ag.zeros(2, 3).shape, ag.ones((2, 3)).shape, ag.empty([2, 3]).shape, ag.full((2, 3), 1.0).shape]
        assert shapes == [(2, 3)] * 4
        assert ag.zeros(()).ndim == 0
        assert ag.rand(2, 3).size(1) == 3
        assert ag.randn((2,)).numel() == 2
        assert ag.zeros_like(ag.ones(2, dtype=ag.int32)).dtype == ag.int32
        assert ag.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
        assert ag.arange(3).tolist() == [0, 1, 2]
        assert ag.arange(0, 1, 0.5).dtype == ag.float32
        assert ag.linspace(0, 1, 3).tolist() == [0, 0.5, 1]

    def test_seed(self):
        ag.manual_seed(3)
        a = ag.rand(4)
        ag.manual_seed(3)
        assert a.tolist() == ag.rand(4).tolist()
        r = ag.randint(2, 5, (100,))
        assert r.dtype == ag.int64
        assert set(r.tolist()) == {2, 3, 4}

    def test_errors(self):
        with pytest.raises(TypeError, match="could not infer a numeric dtype"):
            ag.tensor("text")
        with pytest.raises(ValueError, match="rectangular"):
            ag.tensor([[1], [1, 2]])
        with pytest.raises(TypeError, match=r"use ag\.tensor"):
            ag.Tensor([1])
        with pytest.raises(RuntimeError, match="expected 'cpu', 'cuda' or 'cuda:N'"):
            ag.zeros(2, device="tpu")
        with pytest.raises(RuntimeError, match="floating point dtype"):
            ag.tensor([1, 2], requires_grad=True)

    def test_dlpack_of_negative_strides(self, device):
        t = ag.arange(6, device=device).reshape(2, 3)[::-1, 1:]
        back = ag.from_dlpack(Exporter(t))
        assert back.tolist() == [[4, 5], [1, 2]]
        with pytest.raises(BufferError, match="negative strides"):
            t.__dlpack__(copy=False)
        if device == "cpu":
            torch = pytest.importorskip("torch")
            assert torch.from_dlpack(t).tolist() == [[4, 5], [1, 2]]

    @pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
    def test_dlpack_of_dtypes_that_numpy_does_not_know(self, dtype, device):
        with pytest.raises(BufferError, match=rf"{dtype} cannot be exported by DLPack"):
            ag.ones(2, device=device).to(getattr(ag, dtype)).__dlpack__()

    def test_dlpack(self):
        a = np.arange(3.0)
        t = ag.from_dlpack(a)
        assert np.shares_memory(t.array, a)
        assert np.shares_memory(np.from_dlpack(t), a)
        with pytest.raises(RuntimeError, match="detach"):
            ag.ones(2, requires_grad=True).__dlpack__()

    @pytest.mark.cpu
    def test_torch_exchange(self):
        torch = pytest.importorskip("torch")
        t = ag.from_dlpack(torch.arange(3.0))
        assert t.tolist() == [0, 1, 2]
        assert torch.from_dlpack(ag.ones(2)).tolist() == [1, 1]


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


class TestFloat8:
    @pytest.mark.parametrize("dtype", [ag.float8_e4m3fn, ag.float8_e5m2], ids=str)
    def test_storage_only(self, dtype):
        values = [0.5, -2.0, 3.0]
        t = ag.tensor(values).to(dtype)
        assert t.dtype == dtype
        assert t.element_size() == 1
        assert t.to(ag.float32).tolist() == values
        assert t.numpy(force=True).dtype == dtype
        assert "float8" in repr(t)
        for bad in (lambda: t + t, lambda: t * 2, lambda: ag.exp(t), lambda: t.sum(), lambda: ag.ones(3) * t):
            with pytest.raises(TypeError, match=r"convert with \.to\("):
                bad()
        assert t[0].item() == 0.5
        assert t[1:].dtype == dtype
        with pytest.raises(RuntimeError, match="floating point"):
            t.requires_grad_()

    def test_saturation(self):
        t = ag.tensor([1e6, -1e6, float("nan"), float("inf")])
        e4m3 = t.to(ag.float8_e4m3fn).to(ag.float32).numpy(force=True)
        np.testing.assert_array_equal(e4m3, [448, -448, np.nan, np.nan])
        e5m2 = t.to(ag.float8_e5m2).to(ag.float32).numpy(force=True)
        np.testing.assert_array_equal(e5m2, [57344, -57344, np.nan, np.inf])

    def test_codes_equal_ml_dtypes(self):
        x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
        t = ag.from_numpy(x).to(ag.float8_e4m3fn)
        np.testing.assert_array_equal(t.array, x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


class TestNumPy:
    @pytest.mark.cpu
    def test_arrays_are_constants(self):
        x = ag.ones(3, dtype=ag.float64, requires_grad=True)
        a = np.arange(3.0)
        y = x * a
        assert y.grad_fn.saved_by_name()[0][1].tensor.array is a
        z = a * x
        assert isinstance(z, ag.Tensor)
        assert z.requires_grad
        (g,) = ag.autograd.grad(z.sum(), x)
        assert g.tolist() == a.tolist()
        assert isinstance(a + x, ag.Tensor)
        assert isinstance(a @ x, ag.Tensor)
        assert isinstance(a > x, ag.Tensor)

    def test_ufuncs_record(self):
        x = ag.ones(3, requires_grad=True)
        assert np.sin(x).grad_fn.name() == "SinBackward0"
        assert np.multiply(x, 2.0).grad_fn.name() == "MulBackward0"
        assert np.float64(2.0) * x is not None
        with pytest.raises(TypeError, match="not defined for tensors"):
            np.spacing(x)
        with pytest.raises(TypeError, match="reduce"):
            np.add.reduce(x)

    @pytest.mark.cpu
    def test_array_protocol(self):
        assert np.asarray(ag.ones(2)).tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="detach"):
            np.asarray(ag.ones(2, requires_grad=True))
        with pytest.raises(RuntimeError, match="detach"):
            ag.ones(2, requires_grad=True).numpy()

    def test_foreign_operand(self):
        class Other:
            def __rmul__(self, other):
                return "mine"

        assert ag.ones(2) * Other() == "mine"
        with pytest.raises(TypeError):
            ag.ones(2) * "text"
        with pytest.raises(TypeError, match="must be Tensor, not str"):
            ag.mul(ag.ones(2), "text")


class TestPythonProtocols:
    @pytest.mark.cpu
    def test_printing(self):
        assert repr(ag.tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
        assert repr(ag.tensor([1, 2])) == "tensor([1, 2])"
        assert repr(ag.tensor(1.0, requires_grad=True)) == "tensor(1., requires_grad=True)"
        assert repr(ag.ones(1, requires_grad=True) * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
        assert repr(ag.ones(1, dtype=ag.float64)) == "tensor([1.], dtype=float64)"
        assert repr(ag.zeros(0, 2)) == "tensor([], size=(0, 2))"
        assert "Parameter containing" in repr(ag.nn.Parameter(ag.ones(1)))
        assert "\n       [" in repr(ag.ones(2, 2)).replace("        [", "       [")

    def test_scalars(self):
        t = ag.tensor([2.5])
        assert float(t) == 2.5
        assert int(t) == 2
        assert bool(t)
        assert t.item() == 2.5
        assert f"{ag.tensor(2.5):.2f}" == "2.50"
        assert [10, 20][ag.tensor(1)] == 20
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(ag.ones(2))
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            ag.ones(2).item()
        with pytest.raises(TypeError, match="0-d"):
            len(ag.tensor(1.0))

    def test_iteration_and_containment(self):
        assert [t.item() for t in ag.tensor([1, 2])] == [1, 2]
        assert 2 in ag.tensor([1, 2])
        assert 3 not in ag.tensor([1, 2])
        with pytest.raises(TypeError, match="0-d"):
            iter(ag.tensor(1))

    @pytest.mark.parametrize("make", [lambda: ag.ones(2, requires_grad=True), lambda: ag.nn.Parameter(ag.ones(2)),
                                      lambda: ag.ones(2).to(ag.float8_e5m2), lambda: ag.ones(2, dtype=ag.bfloat16)])
    def test_copies_of_leaves(self, make):
        t = make()
        for c in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            assert type(c) is type(t)
            assert c.requires_grad == t.requires_grad
            assert c.dtype == t.dtype
            np.testing.assert_array_equal(c.numpy(force=True), t.numpy(force=True))
            assert not np.shares_memory(c.array, t.array)

    def test_results_are_not_copied(self):
        y = ag.ones(2, requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="graph leaves"):
            copy.deepcopy(y)
        with pytest.raises(RuntimeError, match="graph leaves"):
            pickle.dumps(y)

    def test_hashable(self):
        t = ag.ones(2)
        assert {t: 1}[t] == 1


class TestAutogradState:
    def test_leaves_and_results(self):
        x = ag.ones(2, requires_grad=True)
        y = x * 2
        assert x.is_leaf
        assert x.grad_fn is None
        assert not y.is_leaf
        assert y.grad_fn.name() == "MulBackward0"
        assert not y.detach().requires_grad
        assert np.shares_memory(y.detach().array, y.array)
        with pytest.raises(RuntimeError, match="leaf variables"):
            y.requires_grad_(False)
        x.requires_grad = False
        assert not x.requires_grad
        assert (x * 2).is_leaf

    def test_grad_of_an_inner_tensor_warns(self):
        """Where PyTorch does: it would stay None, and training would silently do nothing."""
        x = ag.ones(2, requires_grad=True)
        y, retained, given, constant = x * 2, x * 2, x * 2, ag.ones(2) * 2
        retained.retain_grad()
        given.grad = ag.ones(2)
        assert x.grad is retained.grad is constant.grad is None
        assert given.grad is not None
        with pytest.warns(UserWarning, match=r"not a leaf Tensor is being accessed.*use \.retain_grad\(\)"):
            assert y.grad is None

    def test_grad_assignment(self):
        x = ag.ones(2, requires_grad=True)
        x.grad = ag.zeros(2)
        with pytest.raises(RuntimeError, match="gradient of size"):
            x.grad = ag.zeros(3)
        with pytest.raises(RuntimeError, match="gradient with dtype"):
            x.grad = ag.zeros(2, dtype=ag.float64)
        with pytest.raises(TypeError, match="expected to be a Tensor or None"):
            x.grad = 1.0
        x.grad = None

    def test_retain_grad(self):
        x = ag.ones(2, requires_grad=True)
        y = x * 2
        y.retain_grad()
        (y * 3).sum().backward()
        assert y.retains_grad
        assert y.grad.tolist() == [3.0, 3.0]

    def test_tensor_hook(self):
        x = ag.ones(2, requires_grad=True)
        y = x * 2
        handle = y.register_hook(lambda g: g * 10)
        (y * 1).sum().backward()
        assert x.grad.tolist() == [20.0, 20.0]
        handle.remove()
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            ag.ones(2).register_hook(print)


class TestInPlace:
    def test_values(self):
        t = ag.tensor([1.0, 2.0])
        with ag.no_grad():
            t.add_(1).mul_(2).sub_(ag.tensor([1.0, 0.0]), alpha=2).div_(2)
            assert t.tolist() == [1.0, 3.0]
            assert t.clamp_(0, 2).tolist() == [1.0, 2.0]
            t[0] = 5
            assert t.fill_(3).tolist() == [3.0, 3.0]
            assert t.zero_().tolist() == [0.0, 0.0]
            assert t.copy_(ag.tensor([7, 8])).tolist() == [7.0, 8.0]

    def test_each_bumps_the_version(self):
        t = ag.ones(2)
        calls = [("add_", 1), ("mul_", 2), ("sub_", 1), ("div_", 2), ("zero_",), ("fill_", 1), ("clamp_", 0, 1),
                 ("copy_", t), ("__setitem__", 0, 1)]
        for k, (name, *args) in enumerate(calls):
            getattr(t, name)(*args)
            assert t._version == k + 1

    def test_saved_tensor_modified(self):
        x, w = ag.ones(2, requires_grad=True), ag.ones(2)
        y = (x * w).sum()
        w.add_(1)
        message = r"modified by an inplace operation: \[autograd_gpu.float32 \[2\]\].*version 1; expected version 0"
        with pytest.raises(RuntimeError, match=message):
            y.backward()

    def test_modified_through_a_view(self):
        x, w = ag.ones(4, requires_grad=True), ag.ones(4)
        y = (x * w).sum()
        w[1:3].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_saved_output_modified(self):
        x = ag.ones(2, requires_grad=True)
        y = x.exp()
        with ag.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="output 0 of ExpBackward0, is at version 1"):
            y.sum().backward()

    def test_not_saved_may_change(self):
        x, w = ag.ones(2, requires_grad=True), ag.ones(2)
        y = (x + w).sum()
        w.add_(1)
        y.backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_refusals(self):
        x = ag.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x.add_(1)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            x[0].add_(1)
        with pytest.raises(RuntimeError, match="can't be cast"):
            ag.ones(2, dtype=ag.int64).add_(1.5)
        with pytest.raises(RuntimeError, match="broadcast shape"):
            ag.ones(2).add_(ag.ones(3, 2))
        with pytest.raises(RuntimeError, match="single memory location"):
            ag.ones(1).expand(3).add_(1)


def test_cuda_without_a_device_says_what_is_missing():
    if ag.cuda.is_available():
        pytest.skip("a CUDA device is present")
    with pytest.raises((ImportError, RuntimeError), match=r"CuPy|not available"):
        ag.ones(2).cuda()
    with pytest.raises((ImportError, RuntimeError), match=r"CuPy|not available"):
        ag.zeros(2, device="cuda")
    assert ag.cuda.device_count() == 0
