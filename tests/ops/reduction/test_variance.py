"""The variance of many numbers far from zero: the mean is rounded, and that is corrected."""

import numpy as np
import pytest

import autograd_gpu as ag

FAR = 1e7  # where the numbers of float32 are 1 apart


@pytest.mark.parametrize("dim", [None, 0])
def test_the_mean_between_two_numbers(device, dim):
    x = ag.tensor(np.tile([[FAR], [FAR + 1]], (1 << 14, 1)), dtype=np.float32, device=device)
    assert x.var(dim, unbiased=False).item() == pytest.approx(0.25)
    assert x.std(dim, unbiased=False).item() == pytest.approx(0.5)
