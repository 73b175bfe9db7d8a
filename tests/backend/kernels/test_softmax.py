"""softmax, its logarithm and their gradients against NumPy references, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import SOFTMAX_BACKWARD_STRIPS, SOFTMAX_STRIPS

pytestmark = pytest.mark.cpu
# Threads per row: one, a few, a warp, several, a block that holds the row in registers, one that reads it twice. The
# last is in several parts; so is the one before it where it is not moved 16 bytes at a time.
SHAPES = [(1, 1), (300, 1), (37, 24), (2, 3), (45, 40), (3, 1003), (2, 9000), (1, 40000)]
MULTIPROCESSORS = 132  # of an H100
ACCURACY = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 4e-6, "float64": 1e-14}
LOGARITHM = [False, True]
HELD = {"softmax": SOFTMAX_STRIPS, "softmax_backward": SOFTMAX_BACKWARD_STRIPS}


def run(kernel, matrices, logarithm, *numbers, offset=0, inplace=False, parts=None, **how):
    """Launches `kernel` on matrices of one shape, as its Python function does; `parts` are those of the grid."""
    (rows, cols), dtype, width = matrices[0].shape, matrices[0].dtype, width_of(matrices[0], offset)
    (blocks, usual_parts), block = kernels.held_tiles(rows, cols, width, dtype.itemsize, HELD[kernel], MULTIPROCESSORS)
    parts, types = parts or usual_parts, f"{kernels.C_NAMES[dtype]}, {width}"
    shape, results, placed = ((blocks, parts), block), None, [Placed(matrix, offset) for matrix in matrices]
    out = placed[0] if inplace else unset((rows, cols), dtype, offset)
    if parts > 1:
        results = unset((rows, parts, 2 if kernel == "softmax" else 1), kernels.wide(dtype))
        first = [placed[0], *[None if logarithm else saved for saved in placed[1:]]]
        emulated.launch(f"{kernel}_parts<{types}>", shape, *first, results, rows, cols, **how)
    emulated.launch(f"{kernel}<{types}>", shape, *placed, results, out, int(logarithm), *numbers, rows, cols, **how)
    return out.result()


def softmax(x, logarithm=False, safe=False, **how):
    return run("softmax", (x,), logarithm, int(safe), **how)


def backward(g, out, logarithm=False, **how):
    return run("softmax_backward", (g, out), logarithm, **how)


def close(actual, expected, scale=1.0):
    tolerance = ACCURACY[str(actual.dtype)]
    assert_close(actual, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(dtype, shape, offset, logarithm):
    x = quarters(shape, dtype)
    close(softmax(x, logarithm, offset=offset), references.softmax(x, logarithm))


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward(dtype, shape, offset, logarithm):
    g, out = quarters(shape, dtype), references.softmax(quarters(shape, dtype), logarithm)
    result = backward(g, out, logarithm, offset=offset)
    scale = np.abs(g.astype(float)).sum(-1).max() if logarithm else 4.0
    close(result, references.softmax_backward(g, out, logarithm), scale)


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("parts", [1, 2, 3, 300])
@pytest.mark.parametrize("shape", [(5, 1), (5, 8), (70, 24), (2, 9000), (1, 40000)], ids=str)
def test_parts(dtype, shape, parts, logarithm):
    """Also with parts that have no column of their own, with several rows in a block, and more parts than threads."""
    if parts == 300 and shape[0] > 5:
        return
    x, g = quarters(shape, dtype), quarters(shape, dtype)
    expected = references.softmax(x, logarithm)
    close(softmax(x, logarithm, parts=parts), expected)
    scale = np.abs(g.astype(float)).sum(-1).max() if logarithm else 4.0
    reference = references.softmax_backward(g, expected, logarithm)
    for inplace in (False, True):
        close(backward(g, expected, logarithm, parts=parts, inplace=inplace), reference, scale)


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("shape", [(37, 24), (3, 1003), (2, 5000), (2, 40000)], ids=str)
def test_orders_give_the_same_bits(dtype, shape, logarithm):
    x, g = np.random.randn(*shape).astype(dtype), np.random.randn(*shape).astype(dtype)
    first, *rest = [softmax(x, logarithm, order=order) for order in ORDERS]
    gradient, *gradients = [backward(g, first, logarithm, order=order) for order in ORDERS]
    for other, another in zip(rest, gradients, strict=True):
        assert_same(other, first)
        assert_same(another, gradient)


@pytest.mark.parametrize("shape", [(8, 0), (0, 5), (0, 0)])
def test_softmax_of_nothing(dtype, shape):
    x = np.ones(shape, dtype)
    assert_same(softmax(x), x)
    assert_same(backward(x, x), x)


@pytest.mark.parametrize(("logarithm", "safe"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize(("cols", "parts"), [*[(n, 1) for n in (3, 24, 40, 1003, 9000)], (3, 2), (40, 3), (9000, 4)])
def test_nan_and_infinity_stay_in_their_row(dtype, cols, parts, logarithm, safe):
    """Also where a thread, all of a warp, or a whole part sees nothing but -inf."""
    x = np.zeros((9, cols), dtype)
    x[1, 1], x[2, -1] = np.nan, np.inf
    x[3] = -np.inf
    x[4, 1:] = x[5, :-1] = -np.inf
    x[6, :2] = -np.inf, np.inf
    x[7] = np.nan
    result, expected = softmax(x, logarithm, safe, parts=parts), references.softmax(x, logarithm, safe)
    close(result, expected)
    lost = np.isnan(result.astype(float))
    expected = [i in (1, 2, 6, 7) or (i == 3 and not safe) for i in range(9)]
    assert lost.all(1).tolist() == lost.any(1).tolist() == expected
    assert result[4, 0] == result[5, -1] == (0 if logarithm else 1)


@pytest.mark.parametrize("parts", [1, 2])
def test_large_numbers_do_not_overflow(dtype, parts):
    x = np.array([[60000.0, 60000.0, -60000.0], [-60000.0, -60000.0, -60000.0]], dtype)
    assert softmax(x, parts=parts).astype(float).round(2).tolist() == [[0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    assert softmax(x, True, parts=parts).astype(float).round(2).tolist()[1] == [-1.1, -1.1, -1.1]


@pytest.mark.parametrize("parts", [1, 4])
def test_a_larger_number_in_every_turn(dtype, parts):
    """Each scales down what was summed before, in its part and in all of them."""
    x = np.linspace(-40, 40, 20000).astype(dtype).reshape(1, -1)
    close(softmax(x, parts=parts), references.softmax(x))


@pytest.mark.more
@pytest.mark.parametrize("parts", [1, None])
@pytest.mark.parametrize("logarithm", LOGARITHM)
def test_sums_of_ten_million_numbers_are_as_exact_as_pytorchs(logarithm, parts):
    """PyTorch's on the CPU. In double the sums are exact to 9 digits more."""
    torch = pytest.importorskip("torch")
    x, g = np.random.random((2, 1, 10**7)).astype(np.float32)
    leaf = torch.tensor(x, requires_grad=True)
    there = (torch.log_softmax if logarithm else torch.softmax)(leaf, -1)
    there.backward(torch.tensor(g))
    exact = references.softmax(x.astype(float), logarithm)
    slope = references.softmax_backward(g.astype(float), exact, logarithm)
    out = softmax(x, logarithm, parts=parts)
    dx = backward(g, out, logarithm, parts=parts)
    for actual, other, expected in ((out, there.detach(), exact), (dx, leaf.grad, slope)):
        error, allowed = [np.abs(array - expected).max() / np.abs(expected).max() for array in (actual, other.numpy())]
        assert error <= max(allowed, 5e-7)


@pytest.mark.parametrize("logarithm", LOGARITHM)
def test_gradient_in_the_memory_of_the_other(dtype, logarithm):
    for cols in (24, 9001):
        g, out = quarters((3, cols), dtype), references.softmax(quarters((3, cols), dtype), logarithm)
        assert_same(backward(g, out, logarithm, inplace=True), backward(g, out, logarithm))


def test_long_rows_and_few_rows_get_more_threads():
    assert kernels.held_tiles(10**6, 10, 1, 4, 8) == ((31250, 1), (8, 32))
    assert kernels.held_tiles(10**6, 1024, 4, 4, 8) == ((125000, 1), (32, 8))
    assert kernels.held_tiles(4096, 50000, 4, 4, 8) == ((4096, 1), (256, 1))
    assert kernels.held_tiles(4, 1000, 4, 4, 8) == ((1, 1), (64, 4))
    assert kernels.held_tiles(0, 10, 1, 4, 8)[0] == (0, 1)


def parts_of(rows, cols, multiprocessors=MULTIPROCESSORS):
    """How many blocks share a row of float32."""
    (blocks, parts), (across, _) = kernels.held_tiles(rows, cols, 4, 4, SOFTMAX_STRIPS, multiprocessors)
    assert parts == 1 or (blocks, across) == (rows, kernels.THREADS)
    return parts


def test_blocks_share_long_rows_that_are_too_few():
    """So many that each multiprocessor has four; none has less than it can have in flight at once."""
    assert [parts_of(rows, 10**8) for rows in (1, 4, 16, 100, 131)] == [528, 132, 33, 5, 4]
    assert parts_of(4, 10**6) == 123
    assert parts_of(4, 10**8, multiprocessors=14) == 14


def test_a_block_has_a_row_where_a_second_launch_would_not_pay():
    held = 4 * kernels.THREADS  # columns of a strip of each thread
    assert [parts_of(4, held * strips) for strips in (0, 1, 8, 16)] == [1] * 4
    assert [parts_of(4, held * strips) for strips in (17, 32)] == [3, 4]
    assert [parts_of(rows, 10**8) for rows in (0, 132, 133, 4096)] == [1] * 4  # as many as multiprocessors
    assert [parts_of(rows, held * 100) for rows in (4, 66, 110, 111, 120)] == [13, 8, 4, 1, 1]  # nearly as many


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("logarithm", LOGARITHM)
def test_no_race_and_no_undefined_behaviour(dtype, logarithm, offset):
    for shape, parts in (((70, 24), 1), ((70, 24), 2), ((3, 1000), 1), ((1, 9000), 1), ((1, 9000), 3)):
        x, how = quarters(shape, dtype), {"offset": offset, "parts": parts}
        out = softmax(x, logarithm, check="races", **how)
        assert_same(out, softmax(x, logarithm, **how))
        assert_same(backward(x, out, logarithm, check="races", **how), backward(x, out, logarithm, **how))
