"""Elements at indices are one launch on CUDA, also those of sort and topk."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend import kernels


@pytest.mark.emulated
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [ag.float32, ag.bfloat16, ag.int64, ag.bool], ids=str)
def test_gather_is_one_launch(launches, device, dim, dtype):
    numbers = np.random.randint(0, 9, (2, 3, 4))
    index = numbers % np.arange(2, 5)[dim]
    x, place = ag.tensor(numbers, device=device).to(dtype), ag.tensor(index, device=device)
    with launches() as found:
        out = ag.take_along_dim(x, place, dim)
    assert found.total == 1, found.kernels
    expected = np.take_along_axis(numbers, index, dim)
    assert out.tolist() == (expected.astype(bool) if dtype == ag.bool else expected).tolist()


@pytest.mark.emulated
@pytest.mark.parametrize("shape", [(7,), (3, 5)], ids=str)
def test_sort_launches_nothing_but_argsort_and_gather(launches, device, shape):
    x = ag.tensor(np.random.randn(*shape), device=device)
    with launches() as alone:
        ag.argsort(x, 0, stable=True)
    with launches() as found:
        ag.sort(x, 0)
    assert found.kernels.total() == alone.kernels.total() + 1, found.kernels


@pytest.mark.cuda
def test_an_index_may_be_smaller_than_the_tensor(device):
    x = ag.arange(12.0, device=device).reshape(3, 4)
    assert ag.gather(x, 0, ag.tensor([[2, 1], [0, 0]], device=device)).tolist() == [[8.0, 5.0], [0.0, 1.0]]


@pytest.mark.cuda
def test_the_kernel_refuses_an_index_of_another_shape(device):
    x, index = ag.ones(3, 4, device=device).array, ag.zeros(2, 2, dtype=ag.int64, device=device).array
    with pytest.raises(ValueError, match=r"x \(3, 4\) and index \(2, 2\) must be alike in all dimensions but -2"):
        kernels.gather(x, index, -2)
