"""TensorBase: the slots of a tensor, and what is read from its array."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.graph.tensor_base import TensorBase


def test_a_tensor_has_the_slots_of_its_base(device):
    x = ag.ones(2, device=device)
    assert isinstance(x, TensorBase)
    assert (x * 2).requires_grad_().sum().__dict__ == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool", "float8_e4m3fn"])
def test_what_the_array_says(device, dtype):
    dtype = getattr(ag, dtype)
    x = ag.zeros(2, 3, device=device).to(dtype)
    assert (x.shape, x.ndim, x.dim(), x.numel()) == ((2, 3), 2, 2, 6)
    assert (x.dtype, x.device.type) == (dtype, ag.device(device).type)
    assert (x.itemsize, x.element_size(), x.nbytes) == (dtype.itemsize, dtype.itemsize, 6 * dtype.itemsize)
    assert x.is_floating_point() == (dtype not in (ag.int64, ag.bool))
    assert (x.is_contiguous(), x.mT.is_contiguous()) == (True, False)


def test_the_array_is_the_memory_itself(device):
    x = ag.zeros(3, device=device)
    x.array[1] = 5
    assert x.tolist() == [0, 5, 0]
    assert x[1:]._is_view()
    assert not x._is_view()


def test_the_base_has_no_arithmetic_of_its_own():
    base = object.__new__(TensorBase)
    base._array = np.zeros(2)
    assert base.shape == (2,)
    with pytest.raises(NotImplementedError):
        base.detach()
    with pytest.raises(NotImplementedError):
        base + base
