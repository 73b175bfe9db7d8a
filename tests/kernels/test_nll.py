"""nll and its gradient against NumPy references, on emulated threads."""

import emulated
import numpy as np
import pytest
from emulated import DTYPES, ORDERS, Placed, assert_close, assert_same, quarters, unset, width_of

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


def forward(x, classes, reduction="mean", dtype=None, cols=None, **how):
    """The result and the factor; those of no x are of `dtype` and `cols`."""
    dtype, cols, rows = dtype or x.dtype, cols or x.shape[1], len(classes.target)
    shape, w, number = kernels.nll_tiles(rows), kernels.wide(dtype), REDUCTIONS.index(reduction)
    blocks, name = shape[0][0], kernels.C_NAMES[dtype]
    out, factor = unset((rows,) if reduction == "none" else (), dtype), unset((), w)
    partials = unset((blocks, 2), w)
    weight = None if classes.weight is None else Placed(classes.weight)
    given = None if x is None else Placed(x), Placed(classes.target), weight
    ends = classes.ignore_index, number, rows, cols
    emulated.launch(f"nll<{name}>", shape, *given, out, factor, partials, *ends, **how)
    if blocks > 1 and reduction != "none":
        total = (1, 1), (kernels.THREADS, 1)
        emulated.launch(f"cross_entropy_total<{name}>", total, partials, out, factor, number, blocks, **how)
    return out.result(), factor.result()


def backward(g, classes, shape, reduction="mean", offset=0, **how):
    (rows, cols), dx = shape, unset(shape, g.dtype, offset)
    factor = Placed(forward(None, classes, reduction, g.dtype, cols, **how)[1]) if reduction == "mean" else None
    width = width_of(dx.array, offset)
    weight = None if classes.weight is None else Placed(classes.weight)
    given, ends = (Placed(classes.target), weight), (int(g.ndim > 0), 0, classes.ignore_index, 0.0, rows, cols)
    tiles, name = kernels.row_tiles(rows, cols, width, g.itemsize), f"<{kernels.C_NAMES[g.dtype]}, {width}>"
    arrays = Placed(g), None, *given, None, None, factor, dx
    emulated.launch(f"cross_entropy_backward{name}", tiles, *arrays, *ends, **how)
    return dx.result()


def close(found, expected):
    assert_close(found, expected, rtol=ACCURACY[str(found.dtype)], atol=1e-30)


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients(dtype, shape, weighed, reduction):
    x, classes = draw(shape, dtype, weighed, ignore_index=2)
    if shape == (1, 1):
        classes.target[0] = 0
    close(forward(x, classes, reduction)[0], kernels.nll_reference(x, classes, reduction))
    g = quarters((shape[0],) if reduction == "none" else (), dtype)
    for offset in (0, 1):
        found = backward(g, classes, shape, reduction, offset)
        close(found, kernels.nll_backward_reference(g, classes, shape[1], reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_rows_and_none_that_count(dtype, reduction):
    none = kernels.Classes(np.zeros(0, np.int64))
    found, _ = forward(np.ones((0, 5), dtype), none, reduction)
    assert str(found.tolist()) == {"none": "[]", "sum": "0.0", "mean": "nan"}[reduction]
    ignored = kernels.Classes(np.full(6, -100))
    x = np.full((6, 5), np.nan, dtype)
    assert np.isnan(forward(x, ignored, reduction)[0]).all() == (reduction == "mean")
    g = np.ones(6 if reduction == "none" else (), dtype)
    assert not backward(g, ignored, (6, 5), reduction).any()


def test_nan_and_infinity_stay_in_their_row(dtype):
    x = np.ones((5, 3), dtype)
    x[1, 0], x[2, 0], x[3, 1] = np.nan, -np.inf, np.nan
    found, _ = forward(x, kernels.Classes(np.zeros(5, np.int64)), "none")
    assert_same(found, np.array([-1, np.nan, np.inf, -1, -1], dtype))


def test_orders_give_the_same_bits(dtype):
    x, classes = draw((900, 40), dtype, True)
    first, *rest = [forward(x, classes, order=order)[0] for order in ORDERS]
    gradient, *gradients = [backward(first, classes, x.shape, order=order) for order in ORDERS]
    for other, another in zip(rest, gradients, strict=True):
        assert_same(other, first)
        assert_same(another, gradient)


@pytest.mark.parametrize("check", ["races", "undefined"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_race_and_no_undefined_behaviour(dtype, reduction, check):
    x, classes = draw((300, 24), dtype, True)
    found, _ = forward(x, classes, reduction, check=check)
    assert_same(found, forward(x, classes, reduction)[0])
    g = np.ones(found.shape, dtype)
    assert_same(backward(g, classes, x.shape, reduction, check=check), backward(g, classes, x.shape, reduction))
