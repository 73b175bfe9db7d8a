"""backend.where, which on long masks works by bits, against np.where."""

import numpy as np
import pytest

from autograd_gpu import backend
from autograd_gpu.backend.cpu import LONG_MASK

SIZES = (3, LONG_MASK, LONG_MASK + 1)


def arguments(dtype, size):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, size)).astype(dtype)
    a[:3] = np.nan, -0.0, np.inf
    zero_dim = np.asarray(0.5, dtype)
    yield a, b
    for number in (0.0, -0.0, 2.5, np.nan, zero_dim, dtype(3)):
        yield a, number
        yield number, b


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64])
def test_equals_numpy(dtype, size):
    rng = np.random.default_rng(1)
    mask = rng.random(size) < 0.5
    for a, b in arguments(dtype, size) if dtype is not np.int64 else [(np.arange(size), 3), (np.arange(size),) * 2]:
        found, expected = backend.where(np, mask, a, b), np.where(mask, a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("key", [slice(None, None, -1), slice(None, None, 2)])
def test_any_layout_and_broadcasting(key):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 200)).astype(np.float32)[key]
    mask = x > 0
    np.testing.assert_array_equal(backend.where(np, mask, x, 0.0), np.where(mask, x, 0.0))
    np.testing.assert_array_equal(backend.where(np, mask.T, x.T, -x.T), np.where(mask.T, x.T, -x.T))
    np.testing.assert_array_equal(backend.where(np, mask, x[:1], x), np.where(mask, x[:1], x))
    np.testing.assert_array_equal(backend.where(np, mask, x, 1), np.where(mask, x, 1))
    np.testing.assert_array_equal(backend.where(np, mask, x, x.astype(float)), np.where(mask, x, x.astype(float)))


def test_two_numbers_and_masks_that_are_not_bool():
    mask = np.arange(2 * LONG_MASK) % 2
    np.testing.assert_array_equal(backend.where(np, mask, 1.0, 0.0), mask.astype(float))
    np.testing.assert_array_equal(backend.where(np, mask == 1, 1.0, 0.0), mask.astype(float))
