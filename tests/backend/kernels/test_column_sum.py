"""column_sum against its NumPy reference, on emulated threads."""

import emulated
import numpy as np
import pytest
from emulated import DTYPES, ORDERS, Placed, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
PAIRS = [(a, b) for a in DTYPES for b in DTYPES if a == b or kernels.wide(b) == a]  # of array and sum
SHAPES = [(1, 1), (1, 8), (2, 3), (37, 24), (40, 45), (3, 520), (4300, 1), (2100, 8)]  # the last two in several parts


def column_sum(x, dtype, offset=0, parts=None, **how):
    rows, cols = x.shape
    width = width_of(x, offset)
    (across, default), block = kernels.sum_tiles(rows, cols, width, x.itemsize)
    parts = parts or default
    out = unset((cols,), dtype, offset)
    partials = unset((parts, cols), kernels.wide(x.dtype)) if parts > 1 else None
    name = f"column_sum<{kernels.C_NAMES[x.dtype]}, {kernels.C_NAMES[dtype]}, {width}>"
    emulated.launch(name, ((across, parts), block), Placed(x, offset), out, partials, rows, cols, **how)
    return partials.result().sum(axis=0).astype(dtype) if parts > 1 else out.result()


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request):
    return request.param


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_column_sum(pair, shape, offset, order):
    x = quarters(shape, pair[0])
    result = column_sum(x, pair[1], offset, order=order)
    assert_same(result, x.sum(axis=0, dtype=kernels.wide(x.dtype)).astype(pair[1]))


@pytest.mark.parametrize("shape", [(0, 8), (0, 3), (5, 0)])
def test_sum_of_nothing(pair, shape):
    assert_same(column_sum(quarters(shape, pair[0]), pair[1]), np.zeros(shape[1], pair[1]))


@pytest.mark.parametrize("parts", [2, 3])
def test_parts(pair, parts):
    """Also with parts that have no row of their own."""
    for rows in (1, 70):
        x = quarters((rows, 24), pair[0])
        assert_same(column_sum(x, pair[1], parts=parts), column_sum(x, pair[1]))


def test_orders_give_the_same_bits(pair):
    x = np.random.randn(600, 40).astype(pair[0])
    first, *rest = [column_sum(x, pair[1], order=order) for order in ORDERS]
    for other in rest:
        assert_same(first, other)
    np.testing.assert_allclose(first.astype(float), x.astype(float).sum(axis=0), rtol=0.01, atol=1e-3)


def test_nan_and_infinity_stay_in_their_column(pair):
    x = np.ones((9, 24), pair[0])
    x[4, 3], x[5, 7] = np.nan, np.inf
    expected = np.full(24, 9.0)
    expected[3], expected[7] = np.nan, np.inf
    assert_same(column_sum(x, pair[1]).astype(float), expected)


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(pair, offset):
    x = quarters((70, 24), pair[0])
    for parts in (1, 2):
        assert_same(column_sum(x, pair[1], offset, parts=parts, check="races"), column_sum(x, pair[1], offset))
