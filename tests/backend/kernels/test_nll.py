"""nll and its gradient against NumPy references, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.cross_entropy import REDUCTIONS

pytestmark = pytest.mark.cpu
SHAPES = [(1, 1), (37, 24), (300, 3), (900, 40)]  # the last two in several blocks
ACCURACY = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-14}


def draw(shape, dtype, weighed, ignore_index=-100):
    """Numbers, and classes of which every third is the one to ignore."""
    target = np.random.randint(0, shape[1], shape[0])
    target[::3] = ignore_index
    weight = (np.random.randint(1, 9, shape[1]) / 4).astype(kernels.wide(dtype)) if weighed else None
    return quarters(shape, dtype), kernels.Classes(target, weight, ignore_index)


def forward(x, classes, reduction="mean", **how):
    """The result and the factor."""
    (rows, cols), shape, w = x.shape, kernels.nll_tiles(len(x)), kernels.wide(x.dtype)
    blocks, name, number = shape[0][0], kernels.C_NAMES[x.dtype], REDUCTIONS.index(reduction)
    out, factor = unset((rows,) if reduction == "none" else (), x.dtype), unset((), w)
    partials = unset((blocks, 2), w)
    weight = None if classes.weight is None else Placed(classes.weight)
    operands, ends = (Placed(x), Placed(classes.target), weight), (classes.ignore_index, number, rows, cols)
    emulated.launch(f"nll<{name}>", shape, *operands, out, factor, partials, *ends, **how)
    if blocks > 1 and reduction != "none":
        total = (1, 1), (kernels.THREADS, 1)
        emulated.launch(f"cross_entropy_total<{name}>", total, partials, out, factor, number, blocks, **how)
    return out.result(), factor.result()


def backward(g, classes, shape, factor=None, offset=0, **how):
    (rows, cols), dx = shape, unset(shape, g.dtype, offset)
    factor = None if factor is None else Placed(factor)
    width = width_of(dx.array, offset)
    weight = None if classes.weight is None else Placed(classes.weight)
    operands, ends = (Placed(classes.target), weight), (int(g.ndim > 0), 0, classes.ignore_index, 0.0, rows, cols)
    tiles, name = kernels.row_tiles(rows, cols, width, g.itemsize), f"<{kernels.C_NAMES[g.dtype]}, {width}>"
    arrays = Placed(g), None, *operands, None, None, None, factor, dx
    emulated.launch(f"cross_entropy_backward{name}", tiles, *arrays, *ends, **how)
    return dx.result()


def close(actual, expected):
    assert_close(actual, expected, rtol=ACCURACY[str(actual.dtype)], atol=1e-30)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients(dtype, shape, weighed, reduction):
    x, classes = draw(shape, dtype, weighed, ignore_index=2)
    if shape == (1, 1):
        classes.target[0] = 0
    result, factor = forward(x, classes, reduction)
    for one, other in zip((result, factor), references.nll(x, classes, reduction), strict=True):
        close(one, other)
    g = quarters((shape[0],) if reduction == "none" else (), dtype)
    for offset in (0, 1):
        result = backward(g, classes, shape, factor, offset)
        close(result, references.nll_backward(g, classes, shape[1], factor))
    assert_same(backward(g, classes, shape), references.nll_backward(g, classes, shape[1]))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_rows_and_none_that_count(dtype, reduction):
    none = kernels.Classes(np.zeros(0, np.int64))
    result, _ = forward(np.ones((0, 5), dtype), none, reduction)
    assert str(result.tolist()) == {"none": "[]", "sum": "0.0", "mean": "nan"}[reduction]
    ignored = kernels.Classes(np.full(6, -100))
    x = np.full((6, 5), np.nan, dtype)
    loss, factor = forward(x, ignored, reduction)
    assert np.isnan(loss).all() == (reduction == "mean")
    g = np.ones(6 if reduction == "none" else (), dtype)
    assert not backward(g, ignored, (6, 5), factor).any()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_class_out_of_range_makes_its_row_nan(dtype, reduction):
    """Nothing outside of the arrays is read, and no device is stopped; also with the classes 1 to C for 0 to C - 1."""
    x, classes = draw((7, 5), dtype, True)
    classes.target[:] = [0, 5, -100, -1, 2**62, 4, 255]
    outside = np.array([False, True, False, True, True, False, True])
    result, factor = forward(x, classes, reduction)
    close(result, references.nll(x, classes, reduction)[0])
    assert np.isnan(result.astype(float)).tolist() == (outside.tolist() if reduction == "none" else True)
    g = np.ones(result.shape, dtype)
    dx = backward(g, classes, x.shape, factor)
    close(dx, references.nll_backward(g, classes, 5, factor))
    assert (np.isnan(dx.astype(float)) == outside[:, None]).all()


def test_nan_and_infinity_stay_in_their_row(dtype):
    x = np.ones((5, 3), dtype)
    x[1, 0], x[2, 0], x[3, 1] = np.nan, -np.inf, np.nan
    result, _ = forward(x, kernels.Classes(np.zeros(5, np.int64)), "none")
    assert_same(result, np.array([-1, np.nan, np.inf, -1, -1], dtype))


def test_orders_give_the_same_bits(dtype):
    x, classes = draw((900, 40), dtype, True)
    (first, factor), *rest = [forward(x, classes, order=order) for order in ORDERS]
    gradient, *gradients = [backward(first, classes, x.shape, factor, order=order) for order in ORDERS]
    for (other, again), another in zip(rest, gradients, strict=True):
        assert_same(other, first)
        assert_same(again, factor)
        assert_same(another, gradient)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_race_and_no_undefined_behaviour(dtype, reduction):
    x, classes = draw((300, 24), dtype, True)
    classes.target[1] = 24
    result, factor = forward(x, classes, reduction, check="races")
    assert_same(result, forward(x, classes, reduction)[0])
    g = np.ones(result.shape, dtype)
    assert_same(backward(g, classes, x.shape, factor, check="races"), backward(g, classes, x.shape, factor))
