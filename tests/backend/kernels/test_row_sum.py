"""row_sum against its NumPy reference, on emulated threads."""

import emulated
import numpy as np
import pytest
from emulated import DTYPES, ORDERS, Placed, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
PAIRS = [(a, b) for a in DTYPES for b in DTYPES if a == b or kernels.wide(b) == a]  # of array and sum
# Threads per row: 1, 2, a warp's part, a warp, a block; the last two in several parts.
SHAPES = [(1, 1), (300, 1), (2, 3), (37, 24), (45, 40), (3, 520), (40, 1001), (1, 40000), (2, 33001)]


def row_sum(x, dtype, offset=0, parts=None, order="forward", **how):
    rows, cols = x.shape
    width = width_of(x, offset)
    (blocks, default), block = kernels.row_tiles(rows, cols, width, x.itemsize)
    parts = parts or default
    out = unset((rows,), dtype, offset)
    partials = unset((rows, parts), kernels.wide(x.dtype)) if parts > 1 else None
    name = f"row_sum<{kernels.C_NAMES[x.dtype]}, {kernels.C_NAMES[dtype]}, {width}>"
    emulated.launch(name, ((blocks, parts), block), Placed(x, offset), out, partials, rows, cols, order=order, **how)
    return partials.result().sum(axis=1).astype(dtype) if parts > 1 else out.result()


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request):
    return request.param


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_sum(pair, shape, offset, order):
    x = quarters(shape, pair[0])
    result = row_sum(x, pair[1], offset, order=order)
    assert_same(result, x.sum(axis=1, dtype=kernels.wide(x.dtype)).astype(pair[1]))


@pytest.mark.parametrize("shape", [(8, 0), (3, 0), (0, 5), (0, 0)])
def test_sum_of_nothing(pair, shape):
    assert_same(row_sum(quarters(shape, pair[0]), pair[1]), np.zeros(shape[0], pair[1]))


@pytest.mark.parametrize("parts", [2, 3])
def test_parts(pair, parts):
    """Also with parts that have no column of their own."""
    for cols in (1, 8, 700):
        x = quarters((5, cols), pair[0])
        assert_same(row_sum(x, pair[1], parts=parts), row_sum(x, pair[1]))


def test_long_rows_are_divided_and_short_ones_are_not():
    assert kernels.row_tiles(1, 10**7, 4, 4) == ((1, 1024), (256, 1))
    assert kernels.row_tiles(2000, 10**5, 4, 4)[0] == (2000, 1)
    assert kernels.row_tiles(1, 10**7, 4, 4, stages=1)[0] == (1, 1)
    assert kernels.row_tiles(10**6, 1, 1, 4) == ((3907, 1), (1, 256))
    assert kernels.row_tiles(10**6, 1024, 4, 4) == ((62500, 1), (16, 16))


def test_orders_give_the_same_bits(pair):
    x = np.random.randn(5, 3000).astype(pair[0])
    first, *rest = [row_sum(x, pair[1], order=order) for order in ORDERS]
    for other in rest:
        assert_same(first, other)
    np.testing.assert_allclose(first.astype(float), x.astype(float).sum(axis=1), rtol=0.01, atol=1e-2)


@pytest.mark.parametrize("cols", [3, 24, 40, 4200])
def test_nan_and_infinity_stay_in_their_row(pair, cols):
    """Also where a warp has several rows: its shuffles pass the next row's numbers around."""
    x = np.zeros((9, cols), pair[0])
    x[4, 1], x[5, cols - 1] = np.nan, np.inf
    expected = np.zeros(9)
    expected[4], expected[5] = np.nan, np.inf
    assert_same(row_sum(x, pair[1]).astype(float), expected)


def test_sum_of_large_numbers_of_small_ones(pair):
    """In the type itself 4000 ones of float16 would add up to 2048, of bfloat16 to 256."""
    assert row_sum(np.ones((2, 4000), pair[0]), pair[1]).tolist() == [4000, 4000]


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(pair, offset):
    for shape in ((70, 24), (3, 1000)):
        x = quarters(shape, pair[0])
        for parts in (1, 2):
            assert_same(row_sum(x, pair[1], offset, parts=parts, check="races"), row_sum(x, pair[1], offset))
