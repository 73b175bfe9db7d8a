"""dropout and channel_dropout against what the CPU computes, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import DTYPES, ORDERS, Placed, assert_same, quarters, unset

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
NUMBERS = 1.25, 0.5, -2.0  # scale, shift, dropped: exact in every dtype
# (repetitions, bits, elements per bit): none, one, odd and even sizes, several blocks, channels of one strip and more.
SHAPES = [(1, 0, 1), (1, 1, 1), (1, 3, 1), (1, 8, 1), (1, 2077, 1), (1, 4096, 1), (3, 5, 1), (70, 16, 1), (2, 264, 1)]
CHANNELS = [(1, 0, 3), (1, 1, 2), (1, 7, 3), (2, 5, 8), (3, 6, 49), (1, 300, 16), (1, 2, 4500), (1, 3, 4096)]


def masked(times, count, per_bit=1, keep=0.6, seed=2**63 + 7, start=2**64 - 3):
    """A mask whose counters pass 2^64, and numbers of a shape that repeats it."""
    return kernels.Mask(seed, start, keep, count, per_bit), (times * count, per_bit) if per_bit > 1 else (times, count)


def dropout(x, mask, offset=0, in_place=False, order="forward", check="none"):
    """What backend/kernels/dropout.py launches."""
    size, vector = x.itemsize, kernels.VECTOR // x.itemsize
    name, cols = kernels.C_NAMES[x.dtype], mask.count if mask.per_bit == 1 else mask.per_bit
    width = 1 if offset % vector or cols % vector else vector
    source = Placed(x, offset)
    out = source if in_place else unset(x.shape, x.dtype, offset)
    common = source, out, mask.seed, mask.start, None, round(mask.keep * 2**32), *NUMBERS
    if mask.per_bit == 1:
        group = max(vector, 4)
        shape = kernels.tiles(x.shape[0], -(-cols // group) * group, group, size)
        emulated.launch(f"dropout<{name}, {width}>", shape, *common, *x.shape, order=order, check=check)
    else:
        shape = kernels.row_tiles(*x.shape, width, size)
        name = f"channel_dropout<{name}, {width}>"
        emulated.launch(name, shape, *common, mask.count, *x.shape, order=order, check=check)
    return out.result()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("sizes", [*SHAPES, *CHANNELS], ids=str)
def test_dropout(dtype, sizes, offset, order):
    mask, shape = masked(*sizes)
    x = quarters(shape, dtype)
    assert_same(dropout(x, mask, offset, order=order), references.dropout(x, mask, *NUMBERS))


@pytest.mark.parametrize("sizes", [(2, 27, 1), (2, 32, 1), (2, 5, 24), (2, 5, 7)], ids=str)
def test_into_its_input(dtype, sizes):
    mask, shape = masked(*sizes)
    x = quarters(shape, dtype)
    assert_same(dropout(x, mask, in_place=True), references.dropout(x, mask, *NUMBERS))


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(dtype, offset):
    for sizes in ((1, 0, 1), (1, 1, 1), (1, 517, 1), (70, 16, 1), (3, 5, 24), (1, 2, 4501)):
        mask, shape = masked(*sizes)
        x = quarters(shape, dtype)
        assert_same(dropout(x, mask, offset, check="races"), references.dropout(x, mask, *NUMBERS))


@pytest.mark.parametrize("per_bit", [1, 9])
def test_what_is_dropped_does_not_spread(dtype, per_bit):
    """NaN and infinity: gone where they are dropped, as `where` has it, and still there where they are kept."""
    mask, shape = masked(1, 40, per_bit)
    for value in (np.nan, np.inf, -np.inf):
        result = dropout(np.full(shape, value, dtype), mask).astype(np.float64).ravel()
        kept = np.repeat(references.mask_bits(mask), per_bit)
        np.testing.assert_array_equal(result[kept], np.full(kept.sum(), value))
        assert (result[~kept] == -2).all()


@pytest.mark.parametrize(("keep", "share"), [(0.0, 0), (1.0, 1)])
def test_all_or_nothing(dtype, keep, share):
    mask, shape = masked(1, 400, keep=keep)
    assert references.mask_bits(mask).mean() == share
    x = quarters(shape, dtype)
    assert_same(dropout(x, mask), (x * 1.25 + 0.5).astype(dtype) if share else np.full(shape, -2, dtype))


def test_a_mask_depends_on_neither_dtype_nor_alignment_nor_what_follows():
    expected = references.mask_bits(kernels.Mask(1, 2, 0.5, 64))
    for per_bit, shape in ((1, (1, 64)), (6, (64, 6))):
        for dtype in DTYPES:
            for offset in (0, 1):
                result = dropout(np.ones(shape, dtype), kernels.Mask(1, 2, 0.5, 64, per_bit), offset)
                assert ((result > 0).reshape(64, per_bit) == expected[:, None]).all()
    assert (references.mask_bits(kernels.Mask(1, 2, 0.5, 90))[:64] == expected).all()


def test_a_mask_of_more_than_two_to_the_32_bits():
    """The bits that lie beyond are those of their own counters; and the grid covers them all."""
    mask = kernels.Mask(5, 2**32, 0.5, 64)
    x = np.ones((1, 64), np.float32)
    first, later = dropout(x, mask), dropout(x, kernels.Mask(5, 0, 0.5, 64))
    assert_same(first, references.dropout(x, mask, *NUMBERS))
    assert (first != later).any()
    (blocks, parts), (across, deep) = kernels.tiles(1, 2**36, 4, 4)
    assert (blocks * across * 4, parts, deep) == (2**36, 1, 1)
    assert blocks < 2**31
