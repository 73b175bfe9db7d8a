"""layer_norm, its backward and the gradients of its parameters against NumPy references, on emulated threads."""

import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, assert_close, assert_same, quarters
from norm_cases import backward, forward, parameters

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
# Threads per row: 1, 2, a warp's part, a warp, a block; then rows that a block does not hold, and several turns.
SHAPES = [(1, 1), (300, 1), (2, 3), (37, 24), (45, 40), (3, 520), (3, 1001), (2, 4104), (2, 2200), (600, 8)]
CLOSE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(params=[True, False], ids=["layer", "rms"])
def centered(request):
    return request.param


def near(dtype, scale=1.0):
    close = CLOSE[str(dtype)]
    return {"rtol": close, "atol": scale * close}


def drawn(dtype, shape):
    """x, g, weight and bias."""
    return [quarters(size, dtype) for size in (shape, shape, shape[1:], shape[1:])]


def check_forward(actual, x, weight, bias, centered, eps=1e-5):
    out, mean, rstd = actual
    expected, middle, scale = references.layer_norm(x, weight, bias, eps, centered)
    assert_close(out, expected, **near(x.dtype, 4.0))
    assert_close(rstd, scale, **near(rstd.dtype))
    if centered:
        assert_close(mean, middle, **near(mean.dtype, 4.0))
    else:
        assert mean is None
    return middle, scale


def check_sums(actual, expected, rows, dtype):
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other, **near(dtype, 16.0 * max(rows, 1) ** 0.5))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_and_backward(dtype, shape, offset, order):
    x, g, weight, bias = drawn(dtype, shape)
    how = {"offset": offset, "order": order}
    middle, scale = check_forward(forward(x, weight, bias, eps=0.1, **how), x, weight, bias, True, eps=0.1)
    expected = references.layer_norm_backward(g, x, weight, middle, scale)
    held = kernels.held(shape[1], 1 if offset or shape[1] % 8 else 16 // dtype.itemsize)
    dx, *sums = backward(g, x, weight, middle, scale, need=(held, held), **how)
    assert_close(dx, expected[0], **near(dtype, 32.0))
    for actual in ([sums] if held else []) + [parameters(g, x, middle, scale, **how)]:
        check_sums(actual, expected[1:], shape[0], dtype)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (37, 24), (3, 1001), (2, 4104)], ids=str)
def test_rms_norm(dtype, shape):
    x, g, weight, _ = drawn(dtype, shape)
    zeros, scale = check_forward(forward(x, weight, eps=0.1, centered=False), x, weight, None, False, eps=0.1)
    expected = references.layer_norm_backward(g, x, weight, zeros, scale, centered=False)
    dx, _, _ = backward(g, x, weight, None, scale, need=(False, False))
    assert_close(dx, expected[0], **near(dtype, 32.0))
    dweight, none = parameters(g, x, None, scale, need=(True, False))
    assert none is None
    check_sums([dweight], expected[1:2], shape[0], dtype)


@pytest.mark.parametrize("shared", [1, 2, 3, 300, None])
@pytest.mark.parametrize("shape", [(5, 1), (5, 8), (70, 24), (2, 9000), (1, 40000)], ids=str)
def test_blocks_share_a_row(dtype, shape, shared, centered):
    """Also blocks that have no column of their own, with several rows, and more of them than threads."""
    if shared == 300 and shape[0] > 5:
        return
    x, g, weight, bias = drawn(dtype, shape)
    result = forward(x, weight, bias, eps=0.1, centered=centered, shared=shared)
    middle, scale = check_forward(result, x, weight, bias, centered, eps=0.1)
    for factors in (weight, None):
        dx = backward(g, x, factors, middle if centered else None, scale, need=(False, False), shared=shared)[0]
        expected = references.layer_norm_backward(g, x, factors, middle, scale, centered)[0]
        assert_close(dx, expected, **near(dtype, 32.0))


@pytest.mark.parametrize("need", [(True, True), (True, False), (False, True), (False, False)], ids=str)
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_and_needs(dtype, parts, need):
    """Also with parts that have no row of their own, and turns that have none for some of a block's threads."""
    for rows in (1, 70):
        x, g, weight, _ = drawn(dtype, (rows, 24))
        _, mean, rstd = references.layer_norm(x)
        expected = references.layer_norm_backward(g, x, weight, mean, rstd)
        dx, *sums = backward(g, x, weight, mean, rstd, need, parts=parts)
        assert_close(dx, expected[0], **near(dtype, 4 * np.abs(rstd).max()))
        for actual in (sums, parameters(g, x, mean, rstd, need, parts=parts)):
            assert [array is not None for array in actual] == list(need)
            reference = [(a, b) for a, b in zip(actual, expected[1:], strict=True) if a is not None]
            for one, other in reference:
                assert_close(one, other, **near(dtype, 16.0 * rows**0.5 * np.abs(rstd).max()))


def test_without_parameters(dtype, centered):
    x, g, _, _ = drawn(dtype, (9, 40))
    middle, scale = check_forward(forward(x, centered=centered), x, None, None, centered)
    dx = backward(g, x, None, middle if centered else None, scale, need=(False, False))[0]
    expected = references.layer_norm_backward(g, x, None, middle, scale, centered)
    assert_close(dx, expected[0], **near(dtype, 8.0))


@pytest.mark.parametrize(("cols", "shared"), [*[(n, 1) for n in (8, 33, 640, 4100, 9000)], (33, 2), (9000, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_mean_costs_no_digits(dtype, cols, shared):
    """Mean 1e4, deviation 1: the mean of the squares is 1e8, which float32 knows to 8. Far from it lies one number."""
    x = (1e4 + np.random.randn(4, cols)).astype(dtype)
    x[1:, 0] = 1.0, 0.0, 1e4
    out, mean, rstd = forward(x, shared=shared)
    exact = x.astype(np.longdouble)
    middle = exact.mean(1, keepdims=True)
    scale = 1 / np.sqrt(((exact - middle) ** 2).mean(1, keepdims=True) + 1e-5)
    digits = 1e4 * np.finfo(dtype).eps  # of x itself
    np.testing.assert_allclose(mean, middle.astype(dtype), rtol=0, atol=2 * digits)
    np.testing.assert_allclose(rstd, scale.astype(dtype), rtol=2e-3 if dtype == "float32" else 1e-10)
    np.testing.assert_allclose(out, ((exact - middle) * scale).astype(dtype), rtol=1e-5, atol=4 * digits)


@pytest.mark.more
@pytest.mark.parametrize("shared", [1, None])
def test_ten_million_numbers_cost_no_digits(shared):
    """Against double: a few times the 6e-8 to which float32 rounds, of the gradient also what the statistics lost."""
    x, g = np.random.random((2, 1, 10**7)).astype(np.float32)
    out, mean, rstd = forward(x, shared=shared)
    dx = backward(g, x, None, mean, rstd, need=(False, False), shared=shared)[0]
    exact = references.layer_norm(x.astype(float))
    slope = references.layer_norm_backward(g.astype(float), x.astype(float), None, *exact[1:])[0]
    for actual, expected, close in [*zip((out, mean, rstd), exact, (5e-7,) * 3, strict=True), (dx, slope, 5e-6)]:
        assert np.abs(actual - expected).max() <= close * np.abs(expected).max()


@pytest.mark.parametrize(("cols", "shared"), [(7, 1), (16, 1), (4104, 1), (7, 2), (4104, 3)])
def test_constant_rows(dtype, cols, shared):
    """The variance is 0, whatever the size of the numbers: the square of 2 ** 100 is more than float32 holds."""
    x = np.array([[0.0], [3.0], [-60000.0]]).repeat(cols, 1)
    if str(dtype) in ("float32", "bfloat16"):
        x[2] = 2.0**100
    out, mean, rstd = forward(x.astype(dtype), eps=1e-4, shared=shared)
    assert_same(out, np.zeros_like(out))
    assert_same(mean, x.astype(dtype)[:, :1].astype(mean.dtype))
    np.testing.assert_allclose(rstd, 100, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize(("cols", "shared"), [(3, 1), (24, 1), (520, 1), (4104, 1), (3, 2), (4104, 3)])
def test_nan_and_infinity_stay_in_their_row(dtype, centered, cols, shared):
    x, g, weight, bias = drawn(dtype, (9, cols))
    x[4, 1], x[5, cols - 1], g[6, 0], g[7, 1] = np.nan, np.inf, np.nan, -np.inf
    middle, scale = references.layer_norm(x, eps=1.0, centered=centered)[1:]
    check_forward(forward(x, weight, bias, 1.0, centered, shared=shared), x, weight, bias, centered, 1.0)
    operands = g, x, weight, middle if centered else None, scale
    result = backward(*operands, need=(False, False), shared=shared)[0]
    expected = references.layer_norm_backward(g, x, weight, middle, scale, centered)[0]
    plain = [0, 1, 2, 3, 8]
    assert_close(result[plain], expected[plain], **near(dtype, 32.0))
    np.testing.assert_array_equal(np.isnan(result.astype(float)), np.isnan(expected.astype(float)))


@pytest.mark.parametrize("shape", [(3, 0), (0, 5), (0, 0)])
def test_of_nothing(dtype, shape):
    x, g, weight, bias = drawn(dtype, shape)
    out, mean, rstd = forward(x, weight, bias, eps=0.25)
    assert out.shape == shape
    assert mean.tolist() == [[0.0]] * shape[0]
    assert rstd.tolist() == [[2.0]] * shape[0]
    assert backward(g, x, weight, mean, rstd, need=(False, False))[0].shape == shape
    for total in parameters(g, x, mean, rstd):
        assert_same(total, np.zeros(shape[1], dtype))


def test_sum_of_large_numbers_of_small_ones(dtype):
    """In the type itself 4000 ones of float16 would add up to 2048, of bfloat16 to 256."""
    x, one = np.tile(np.array([[1.0, -1.0]], dtype), (4000, 1)), np.ones((4000, 1), kernels.wide(dtype))
    g = np.ones((4000, 2), dtype)
    for actual in (backward(g, x, None, 0 * one, one)[1:], parameters(g, x, 0 * one, one)):
        assert [total.tolist() for total in actual] == [[4000, -4000], [4000, 4000]]


def test_orders_give_the_same_bits(dtype):
    for shape in ((600, 40), (3, 4200), (2, 40000)):
        x, g, weight, bias = (np.random.randn(*size).astype(dtype) for size in (shape, shape, shape[1:], shape[1:]))
        first, *rest = [forward(x, weight, bias, order=order) for order in ORDERS]
        _, mean, rstd = first
        held = shape[1] == 40
        gradients = [backward(g, x, weight, mean, rstd, need=(held, held), order=order) for order in ORDERS]
        sums = [parameters(g, x, mean, rstd, order=order) for order in ORDERS]
        for one, *others in ([first, *rest], gradients, sums):
            for other in others:
                for a, b in zip(one, other, strict=True):
                    assert (a is None and b is None) or assert_same(a, b) is None


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(dtype, centered, offset):
    for shape in ((70, 24), (5, 1000), (2, 4104)):
        x, g, weight, bias = drawn(dtype, shape)
        how = {"offset": offset, "check": "races"}
        _, mean, rstd = forward(x, weight, bias, centered=centered, blocks=2, **how)
        held = shape[1] <= 1000
        for parts in (1, 2):
            backward(g, x, weight, mean, rstd, need=(held, held), parts=parts, **how)
            parameters(g, x, mean, rstd, parts=parts, **how)
        for one, other in zip(forward(x, weight, bias, centered=centered, shared=3, **how),
                              forward(x, weight, bias, centered=centered, shared=3, offset=offset), strict=True):
            assert (one is None and other is None) or assert_same(one, other) is None
        backward(g, x, weight, mean, rstd, need=(False, False), shared=3, **how)


def test_long_rows_that_are_too_few_are_shared():
    """As of softmax; never where a block holds the row, whose parameters then have their sums from the same pass."""
    assert kernels.row_turns(4, 10**6, 4, 4, multiprocessors=132) == ((4, 123), (256, 1))
    assert kernels.row_turns(32, 40960, 4, 4, multiprocessors=132) == ((32, 5), (256, 1))
    assert kernels.row_turns(4, 16384, 4, 4, multiprocessors=132)[0] == (4, 1)
    assert kernels.row_turns(132, 10**6, 4, 4, multiprocessors=132)[0] == (132, 1)
    for width in (1, 2, 4, 8):
        longest = max(cols for cols in range(width, 1 << 15, width) if kernels.held(cols, width))
        assert kernels.row_turns(1, longest, width, 16 // width, multiprocessors=1000)[0] == (1, 1)


def test_rows_are_held_or_read_twice_and_divided():
    assert kernels.row_turns(8192, 1024, 4, 4) == ((1024, 1), (64, 4))
    assert kernels.row_turns(8192, 1024, 4, 4, most_parts=216) == ((216, 1), (64, 4))
    assert kernels.row_turns(800, 1024, 4, 4, most_parts=216) == ((100, 1), (64, 4))
    assert kernels.row_turns(64, 64, 4, 4, most_parts=216)[0] == (1, 1)
    assert kernels.row_turns(3, 10**6, 4, 4) == ((3, 1), (256, 1))
    assert [kernels.held(4096, width) for width in (4, 8, 1, 2)] == [True, True, False, False]
    assert kernels.held(2048, 1)
    assert kernels.held(2048, 2)
