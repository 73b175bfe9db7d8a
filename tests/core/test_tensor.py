"""Tensor: data in and out, dtypes, interplay with NumPy, printing."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad, graph


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


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
        with pytest.raises(RuntimeError, match="expected 'cpu', 'cuda' or 'cuda:N'"):
            ag.zeros(2, device="tpu")
        with pytest.raises(RuntimeError, match="floating point dtype"):
            ag.tensor([1, 2], requires_grad=True)


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

    def test_deep_copies_share_memory_as_their_originals(self, device):
        a = ag.arange(6.0, device=device).view(2, 3)
        part, turned, words = a[1:], a.t().detach(), a.view(ag.int32)
        copied, *others = copy.deepcopy((a, part, turned, words))
        copied[1, 0] = 7
        assert (a.tolist()[1][0], part.tolist(), others[0].tolist()) == (3, [[3, 4, 5]], [[7, 4, 5]])
        assert (others[1].tolist(), others[1].stride()) == ([[0, 7], [1, 4], [2, 5]], (1, 3))
        assert others[2].view(ag.float32).tolist() == copied.tolist()

    def test_deep_copies_are_no_larger(self, device):
        row = ag.ones(3, device=device)
        copied = copy.deepcopy(row.expand(1 << 40, 3))
        assert (copied.shape, copied.stride(), copied[5].tolist()) == ((1 << 40, 3), (0, 1), [1, 1, 1])
        rest = np.zeros(1 << 20, np.uint8)
        if device == "cpu":
            assert copy.deepcopy(ag.as_tensor(rest[:2])).array.base is None  # nor the caller's array

    def test_deep_copies_of_parameters(self):
        torch = pytest.importorskip("torch")
        for m in (torch, ag):
            p = m.nn.Parameter(m.ones(2, 3).t())
            p.grad = m.ones(3, 2)
            copied = copy.deepcopy(p)
            assert (copied.grad, tuple(copied.stride())) == (None, (1, 3))

    def test_results_are_not_copied(self):
        y = ag.ones(2, requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="graph leaves"):
            copy.deepcopy(y)

    def test_results_are_pickled_as_leaves(self):
        """As in PyTorch."""
        y = ag.ones(2, requires_grad=True) * 2
        z = pickle.loads(pickle.dumps(y))
        assert (z.tolist(), z.is_leaf, z.requires_grad) == ([2.0, 2.0], True, True)

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
        y, retained, with_grad, constant = x * 2, x * 2, x * 2, ag.ones(2) * 2
        retained.retain_grad()
        with_grad.grad = ag.ones(2)
        assert x.grad is retained.grad is constant.grad is None
        assert with_grad.grad is not None
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


def test_cuda_without_a_device_says_what_is_missing():
    if ag.cuda.is_available():
        pytest.skip("a CUDA device is present")
    with pytest.raises((ImportError, RuntimeError), match=r"CuPy|not available"):
        ag.ones(2).cuda()
    with pytest.raises((ImportError, RuntimeError), match=r"CuPy|not available"):
        ag.zeros(2, device="cuda")
    assert ag.cuda.device_count() == 0


def test_data_can_be_set():
    p = ag.nn.Parameter(ag.ones(2))
    p.data = ag.zeros(2)
    assert p.tolist() == [0.0, 0.0]
    assert p.requires_grad


def test_data_that_does_not_fit():
    for value, dtype in ((300, ag.uint8), (-300, ag.uint8), ([1e10], ag.int32), (float("nan"), ag.int64)):
        with pytest.raises(RuntimeError, match="without overflow"):
            ag.tensor(value, dtype=dtype)
    with pytest.raises(TypeError, match="complex128"):
        ag.from_dlpack(np.ones(2, complex))
    with pytest.raises(TypeError, match="storage dtype"):
        ag.nn.Parameter(ag.ones(1).to(ag.float8_e5m2), requires_grad=False)
    with pytest.raises(RuntimeError, match="can't be cast"):
        ag.tensor([True]).add_(1)


def test_uint64_is_exact_beside_smaller_numbers():
    assert ag.tensor([5, 2**64 - 1], dtype=ag.uint64).tolist() == [5, 2**64 - 1]


def test_printing_and_format():
    assert "float16" in repr(ag.ones(2, dtype=ag.float16))
    assert f"{ag.tensor(1.5)}" == "1.5"


def test_the_array_of_a_tensor_stands_for_it(x):
    y = x * 3
    y.mul_(y.array)
    assert grad(y.sum(), x)[0].tolist() == [18.0, 18.0]


def test_detach_as_often_as_one_likes(x):
    h = x * 1
    for _ in range(3000):
        h.add_(x)
        h.detach_()
    assert h._version == 3000
    assert h.tolist() == [3001.0, 3001.0]


def test_float8_is_copied_as_float8(x):
    class Keeps(Function):
        @staticmethod
        def forward(ctx, t, codes):
            ctx.save_for_backward(codes)
            return t * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].to(ag.float32), None

    codes = ag.ones(2, device=x.device).to(ag.float8_e5m2)
    with graph.allow_mutation_on_saved_tensors():
        y = Keeps.apply(x, codes)
        codes.zero_()
        y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
