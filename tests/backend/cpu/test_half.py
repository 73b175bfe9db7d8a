"""Conversion of many float16 numbers."""

import numpy as np
import pytest

from autograd_gpu.backend.cpu.half import BLOCK, MANY, convert

pytestmark = pytest.mark.cpu
HALF, SINGLE = np.dtype("float16"), np.dtype("float32")


def same(actual, expected):
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.view(f"i{actual.itemsize}"), expected.view(f"i{actual.itemsize}"))


def test_every_float16_keeps_its_value():
    numbers = np.arange(1 << 16, dtype=np.uint16).view(HALF)
    finite = numbers[np.isfinite(numbers)]
    for x in (numbers, finite, finite[: MANY + 1], finite[: 3 * BLOCK + 7]):
        same(convert(x, SINGLE), x.astype(SINGLE))
        same(convert(x.astype(SINGLE), HALF), x)


@pytest.mark.parametrize("bits", [0, 12, 13])
def test_float32_is_rounded_as_numpy_rounds_it(bits):
    """Numbers, ties and neighbours of ties, from far below the smallest float16 to beyond the largest."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << 23, 1 << 16) >> bits << bits | (rng.integers(0, 2, 1 << 16) if bits else 0)
    for low, high in ((80, 142), (100, 115), (140, 150)):
        x = (codes | rng.integers(low, high, 1 << 16) << 23).astype(np.uint32).view(SINGLE)
        x = np.copysign(x, rng.standard_normal(x.size).astype(SINGLE))
        with np.errstate(over="ignore"):
            same(convert(x, HALF), x.astype(HALF))
