"""What NumPy arrays tell at once: of few elements by Python, of many by NumPy, of NaN and of none."""

import math

import numpy as np
import pytest

from autograd_gpu import backend

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("count", [3, 1000])
def test_seen_outside(count):
    x = np.linspace(0.0, 1.0, count)
    assert not backend.seen_outside(x, 0, 1)
    assert backend.seen_outside(x, 0, 0.9)
    assert backend.seen_outside(x, 0.1)
    x[1] = math.nan
    assert backend.seen_outside(x, 0, 1)
    assert not backend.seen_outside(x[:0], 0, 1)


def test_seen_any_and_none_of_arrays_and_scalars():
    for mask in (np.array([False, True]), np.bool_(True)):
        assert backend.seen_any(mask)
        assert not backend.seen_none(mask)
    assert backend.seen_none(np.zeros(0, bool))
