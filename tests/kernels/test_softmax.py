"""softmax, its logarithm and their gradients against NumPy references, on emulated threads."""

import emulated
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import SOFTMAX_BACKWARD_STRIPS, SOFTMAX_STRIPS

pytestmark = pytest.mark.cpu
# Threads per row: one, a few, a warp, several, a block that holds the row in registers, one that reads it twice.
SHAPES = [(1, 1), (300, 1), (37, 24), (2, 3), (45, 40), (3, 1003), (2, 9000), (1, 40000)]
ACCURACY = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 4e-6, "float64": 1e-14}
LOGARITHM = [False, True]
HELD = {"softmax": SOFTMAX_STRIPS, "softmax_backward": SOFTMAX_BACKWARD_STRIPS}


def run(kernel, matrices, numbers, offset=0, out=None, **how):
    """Launches `kernel` on matrices of one shape, as its Python function does; the result is `out` or new memory."""
    rows, cols = matrices[0].shape
    dtype, width = matrices[0].dtype, width_of(matrices[0], offset)
    out = out or unset((rows, cols), dtype, offset)
    shape = kernels.held_tiles(rows, cols, width, dtype.itemsize, HELD[kernel])
    placed = [Placed(matrix, offset) for matrix in matrices]
    emulated.launch(f"{kernel}<{kernels.C_NAMES[dtype]}, {width}>", shape, *placed, out, *numbers, rows, cols, **how)
    return out.result()


def softmax(x, logarithm=False, safe=False, **how):
    return run("softmax", (x,), (int(logarithm), int(safe)), **how)


def backward(g, out, logarithm=False, **how):
    return run("softmax_backward", (g, out), (int(logarithm),), **how)


def close(found, expected, scale=1.0):
    tolerance = ACCURACY[str(found.dtype)]
    assert_close(found, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(dtype, shape, offset, logarithm):
    x = quarters(shape, dtype)
    close(softmax(x, logarithm, offset=offset), kernels.softmax_reference(x, logarithm))


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward(dtype, shape, offset, logarithm):
    g, out = quarters(shape, dtype), kernels.softmax_reference(quarters(shape, dtype), logarithm)
    found = backward(g, out, logarithm, offset=offset)
    scale = np.abs(g.astype(float)).sum(-1).max() if logarithm else 4.0
    close(found, kernels.softmax_backward_reference(g, out, logarithm), scale)


@pytest.mark.parametrize("logarithm", LOGARITHM)
@pytest.mark.parametrize("shape", [(37, 24), (3, 1003), (2, 5000)], ids=str)
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
@pytest.mark.parametrize("cols", [3, 24, 40, 1003, 9000])
def test_nan_and_infinity_stay_in_their_row(dtype, cols, logarithm, safe):
    """Also where a thread, or all of a warp, sees nothing but -inf."""
    x = np.zeros((9, cols), dtype)
    x[1, 1], x[2, -1] = np.nan, np.inf
    x[3] = -np.inf
    x[4, 1:] = x[5, :-1] = -np.inf
    x[6, :2] = -np.inf, np.inf
    x[7] = np.nan
    found, expected = softmax(x, logarithm, safe), kernels.softmax_reference(x, logarithm, safe)
    close(found, expected)
    lost = np.isnan(found.astype(float))
    expected = [i in (1, 2, 6, 7) or (i == 3 and not safe) for i in range(9)]
    assert lost.all(1).tolist() == lost.any(1).tolist() == expected
    assert found[4, 0] == found[5, -1] == (0 if logarithm else 1)


def test_large_numbers_do_not_overflow(dtype):
    x = np.array([[60000.0, 60000.0, -60000.0], [-60000.0, -60000.0, -60000.0]], dtype)
    assert softmax(x).astype(float).round(2).tolist() == [[0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    assert softmax(x, True).astype(float).round(2).tolist()[1] == [-1.1, -1.1, -1.1]


def test_a_larger_number_in_every_turn(dtype):
    """Each scales down what was summed before."""
    x = np.linspace(-40, 40, 20000).astype(dtype).reshape(1, -1)
    close(softmax(x), kernels.softmax_reference(x))


@pytest.mark.parametrize("logarithm", LOGARITHM)
def test_gradient_in_the_memory_of_the_other(dtype, logarithm):
    for cols in (24, 9001):
        g, out = quarters((3, cols), dtype), kernels.softmax_reference(quarters((3, cols), dtype), logarithm)
        shape = kernels.held_tiles(3, cols, width_of(g), g.itemsize, SOFTMAX_BACKWARD_STRIPS)
        memory = Placed(g)
        name = f"softmax_backward<{kernels.C_NAMES[dtype]}, {width_of(g)}>"
        emulated.launch(name, shape, memory, Placed(out), memory, int(logarithm), 3, cols)
        assert_same(memory.result(), backward(g, out, logarithm))


def test_long_rows_and_few_rows_get_more_threads():
    assert kernels.held_tiles(10**6, 10, 1, 4, 8) == ((31250, 1), (8, 32))
    assert kernels.held_tiles(10**6, 1024, 4, 4, 8) == ((125000, 1), (32, 8))
    assert kernels.held_tiles(4096, 50000, 4, 4, 8) == ((4096, 1), (256, 1))
    assert kernels.held_tiles(4, 1000, 4, 4, 8) == ((1, 1), (64, 4))
    assert kernels.held_tiles(0, 10, 1, 4, 8)[0] == (0, 1)


@pytest.mark.parametrize("check", ["races", "undefined"])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("logarithm", LOGARITHM)
def test_no_race_and_no_undefined_behaviour(dtype, logarithm, offset, check):
    for shape in ((70, 24), (3, 1000), (1, 9000)):
        x = quarters(shape, dtype)
        out = softmax(x, logarithm, offset=offset, check=check)
        assert_same(out, softmax(x, logarithm, offset=offset))
        assert_same(backward(x, out, logarithm, offset=offset, check=check), backward(x, out, logarithm, offset=offset))
