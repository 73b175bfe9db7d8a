"""Where arrays lie in memory."""

import numpy as np
import pytest

from autograd_gpu import backend
from autograd_gpu.backend.arrays import strides
from autograd_gpu.backend.arrays.device import Device


@pytest.mark.parametrize(("key", "first", "last"), [
    ((), 0, 6), ((0,), 0, 3), ((1, slice(1, None)), 4, 6), ((slice(None), 1), 1, 5), ((slice(None, None, -1),), 0, 6),
    ((slice(0, 0),), 0, 0),
])  # fmt: skip
def test_extent(key, first, last, device):
    array = backend.to_device(np.zeros((2, 3)), Device(device))
    begin = strides.address(array)
    assert strides.extent(array[key]) == (begin + 8 * first, begin + 8 * last)
