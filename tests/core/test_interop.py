"""How values come and go: NumPy's protocols, DLPack, operands of other libraries."""

from __future__ import annotations

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


class TestDLPack:
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
