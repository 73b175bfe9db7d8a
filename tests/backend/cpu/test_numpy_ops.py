"""`where` on large arrays, which copies bits: equal to np.where in every dtype, for every number, broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.arrays import dtypes
from autograd_gpu.backend.cpu import numpy_ops

pytestmark = pytest.mark.cpu

COUNT = numpy_ops.MANY_CHOICES
SHAPES = [(COUNT,), (2, COUNT // 2), (COUNT // 64, 1, 64)]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]


def sample(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    if dtype.kind == "i":
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.choice([*SPECIAL, *rng.normal(size=10)], size=shape).astype(dtype)


def bits(array):
    return array.view(f"u{array.itemsize}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64", "int8", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_numpys(shape, dtype):
    dtype = dtypes.as_dtype(dtype)
    mask = np.random.default_rng(0).random(shape) < 0.5
    a, b = sample(dtype, shape, 1), sample(dtype, shape, 2)
    small = sample(dtype, shape[-1:], 3)
    zero_dim = sample(dtype, (), 4)
    pairs = [(a, b), (a, small), (small, b), (a, zero_dim), (zero_dim, b), (a.T.copy().T, b[::-1])]
    for x, y in pairs:
        result, expected = numpy_ops.where(mask, x, y), np.where(mask, x, y)
        assert result.dtype == expected.dtype == dtype
        np.testing.assert_array_equal(bits(result), bits(expected))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("number", [*SPECIAL, 0, 2, True])
def test_numbers(dtype, number):
    mask = np.random.default_rng(0).random(COUNT) < 0.5
    a = sample(np.dtype(dtype), COUNT, 1)
    for actual, expected in ((numpy_ops.where(mask, a, number), np.where(mask, a, number)),
                            (numpy_ops.where(mask, number, a), np.where(mask, number, a))):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(bits(actual), bits(expected))


def test_what_it_leaves_to_numpy():
    mask = np.random.default_rng(0).random(COUNT) < 0.5
    whole, single = np.arange(COUNT), np.arange(COUNT, dtype=np.float32)
    for a, b in ((whole, 0.5), (0.5, whole), (1.0, 2.0), (whole, single), (single, np.float64(3))):
        result, expected = numpy_ops.where(mask, a, b), np.where(mask, a, b)
        assert result.dtype == expected.dtype or (b is not whole and isinstance(b, np.float64))
        np.testing.assert_array_equal(result, expected)


def test_gradients_of_large_selections():
    """NaN and infinities where the mask is False leave no trace."""
    mask = ag.tensor(np.random.default_rng(0).random(COUNT) < 0.5)
    x = ag.tensor(np.where(mask.numpy(), 1.0, np.nan), requires_grad=True)
    y = ag.ones(COUNT, dtype=ag.float64, requires_grad=True)
    g = ag.tensor(np.where(mask.numpy(), 2.0, np.inf))
    gx, gy = ag.autograd.grad(ag.where(mask, x, y), (x, y), g)
    np.testing.assert_array_equal(gx.numpy(), np.where(mask.numpy(), 2.0, 0.0))
    np.testing.assert_array_equal(gy.numpy(), np.where(mask.numpy(), 0.0, np.inf))
    (gx,) = ag.autograd.grad(ag.clamp(x, 0.0, 3.0), x, g)
    np.testing.assert_array_equal(gx.numpy(), np.where(mask.numpy(), 2.0, 0.0))
    (gx,) = ag.autograd.grad(ag.masked_fill(x, mask, 0.0).sum(), x)
    np.testing.assert_array_equal(gx.numpy(), np.where(mask.numpy(), 0.0, 1.0))
