"""Averages of windows beside each other, which are one sum of the array in another shape."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.nn import functional as F


@pytest.mark.parametrize("size", [4, 32])
def test_averages_of_windows_beside_each_other(device, size):
    x = np.random.default_rng(0).standard_normal((2, 3, 4 * size))
    leaf = ag.tensor(x, device=device, requires_grad=True)
    averages = F.avg_pool1d(leaf, size)
    np.testing.assert_allclose(averages.detach().cpu().numpy(), x.reshape(2, 3, 4, size).mean(-1), rtol=1e-12)
    weights = np.arange(24.0).reshape(2, 3, 4)
    (averages * ag.tensor(weights, device=device)).sum().backward()
    np.testing.assert_allclose(leaf.grad.cpu().numpy(), np.repeat(weights / size, size, -1), rtol=1e-12)
