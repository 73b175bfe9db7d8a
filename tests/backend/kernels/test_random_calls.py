"""dropout and the random numbers of backend/kernels/ on CuPy arrays, on a GPU or emulated."""

import kernel_references as references
import numpy as np
import pytest
from emulated import DTYPES, assert_close, assert_same, on_device, quarters

from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
NUMBERS = 1.25, 0.5, -2.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_dropout(xp, dtype, offset):
    for shape, count, per_bit in [((0, 4), 0, 1), ((), 1, 1), ((7, 33), 231, 1), ((3, 16), 16, 1), ((4, 6, 8), 12, 8)]:
        numbers = quarters(shape, dtype)
        x = on_device(xp, numbers, offset)
        mask = kernels.Mask(9, 2**40, 0.4, count, per_bit)
        expected = references.dropout(numbers, mask, *NUMBERS)
        with profiler.count() as counts:
            assert_same(to_numpy(kernels.dropout(x, mask, *NUMBERS)), expected)
        assert sum(counts.launches.values()) == (numbers.size > 0)
        assert kernels.dropout(x, mask, *NUMBERS, out=x) is x
        assert_same(to_numpy(x), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", kernels.DISTRIBUTIONS)
def test_numbers(xp, name, dtype):
    for shape in ((), (0, 3), (5,), (30, 41)):
        with profiler.count() as counts:
            result = to_numpy(kernels.random_numbers(name, shape, dtype, 2**63, 2**33, 2.0, 0.5))
        assert sum(counts.launches.values()) == (result.size > 0)
        expected = references.random_numbers(name, shape, dtype, 2**63, 2**33, 2.0, 0.5)
        rtol = {"float16": 2e-3, "bfloat16": 2e-2}.get(str(dtype), 1e-5)
        assert_close(result, expected, rtol=rtol, atol=1e-5)


def test_bits_and_integers(xp):
    for shape in ((), (0, 3), (5,), (30, 41)):
        result = to_numpy(kernels.random_bits(shape, 0.3, 1, 2))
        assert result.dtype == bool
        assert result.ravel().tolist() == references.mask_bits(kernels.Mask(1, 2, 0.3, result.size)).tolist()
        for bounds in ((-3, 5), (-(2**63), 2**62)):
            expected = references.random_integers(shape, *bounds, 1, 2)
            assert_same(to_numpy(kernels.random_integers(shape, *bounds, 1, 2)), expected)


def test_events(xp):
    rates = xp.asarray([0.0, np.nan, np.inf, *[4.0] * 500, *[400.0] * 500])
    result = to_numpy(kernels.random_events(rates, 1, 2))
    np.testing.assert_array_equal(result[:3], [0, np.nan, np.inf])
    np.testing.assert_allclose([result[3:503].mean(), result[503:].mean()], [4, 400], rtol=0.05)


def test_gammas_and_successes(xp):
    alphas = xp.asarray([0.0, np.nan, -1.0, *[0.5] * 1000, *[40.0] * 500])
    result = to_numpy(kernels.random_gammas(alphas, 1, 2))
    np.testing.assert_array_equal(result[:3], [0, np.nan, np.nan])
    np.testing.assert_allclose([result[3:1003].mean(), result[1003:].mean()], [0.5, 40], rtol=0.1)
    counts = xp.asarray([3.0, np.nan, *[4.0] * 500, *[400.0] * 500])
    result = to_numpy(kernels.random_successes(counts, xp.asarray([1.0, 0.5, *[0.25] * 1000]), 1, 2))
    np.testing.assert_array_equal(result[:2], [3, np.nan])
    np.testing.assert_allclose([result[2:502].mean(), result[502:].mean()], [1, 100], rtol=0.1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda xp, mask: kernels.dropout(np.ones(4), mask, 1), TypeError, "x must be a CuPy array, not ndarray"),
        (lambda xp, mask: kernels.dropout(xp.ones(4, "int32"), mask, 1), TypeError, "int32 is not supported"),
        (lambda xp, mask: kernels.dropout(xp.ones(6), mask, 1), ValueError, r"4 \* 1 elements does not fit x of shape"),
        (lambda xp, mask: kernels.dropout(xp.ones(8)[::2], mask, 1), ValueError, "x must be contiguous"),
        (lambda xp, mask: kernels.dropout(xp.ones(4), mask, 1, out=xp.ones(3)), ValueError, "out must have shape"),
        (lambda xp, mask: kernels.random_events(xp.ones(4, "float32"), 0, 0), TypeError, "rates must be float64"),
        (lambda xp, mask: kernels.random_numbers("Normal", (2,), np.dtype("int32"), 0, 0), TypeError, "not supported"),
    ],
)
def test_wrong_arguments_are_refused(xp, call, error, text):
    with pytest.raises(error, match=text):
        call(xp, kernels.Mask(0, 0, 0.5, 4))
