"""The cross entropy of logits and classes and its gradient against what the CPU computes, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.cross_entropy import REDUCTIONS, forward_tiles

pytestmark = pytest.mark.cpu
# One block, several rows in turn of each thread, several blocks, rows that a block shares, rows in several parts.
SHAPES = [(1, 1), (37, 24), (300, 3), (20000, 1), (900, 40), (40, 1001), (3, 18000), (1, 70000)]
ACCURACY = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-13}


def draw(shape, dtype, weighed=False, smoothing=0.0, ignore_index=-100):
    """Logits, and classes of which every third is the one to ignore."""
    rows, cols = shape
    target = np.random.randint(0, cols, rows)
    target[::3] = ignore_index
    weight = np.random.randint(1, 9, cols) / 4 if weighed else None
    weight = None if weight is None else weight.astype(kernels.wide(dtype))
    return quarters(shape, dtype), kernels.Classes(target, weight, ignore_index, smoothing)


def forward(x, classes, reduction="mean", offset=0, shape=None, order="forward", check="none"):
    """What the Python function does: its result and what it keeps."""
    (rows, cols), width, w = x.shape, width_of(x, offset), kernels.wide(x.dtype)
    shape = shape or forward_tiles(rows, cols, width, x.itemsize, reduction)
    blocks, parts = shape[0]
    out = unset((rows,) if reduction == "none" else (), x.dtype)
    kept = [*(unset((rows,), w) for _ in range(3)), unset((), w)]
    partials = unset((rows * parts, 4) if parts > 1 else (blocks, 2), w)
    weight = None if classes.weight is None else Placed(classes.weight)
    inputs, how = (Placed(x, offset), Placed(classes.target), weight), {"order": order, "check": check}
    name, options = kernels.C_NAMES[x.dtype], (classes.ignore_index, classes.smoothing, REDUCTIONS.index(reduction))
    numbers = *options, rows, cols
    emulated.launch(f"cross_entropy<{name}, {width}>", shape, *inputs, out, *kept, partials, *numbers, **how)
    if parts > 1:
        joining = (1, 1), kernels.held_tiles(rows, parts, 1, w.itemsize, 1)[1]
        ends = *options, parts, rows, cols
        emulated.launch(f"cross_entropy_join<{name}>", joining, *inputs, partials, out, *kept, *ends, **how)
    elif reduction != "none" and blocks > 1:
        total = (1, 1), (kernels.THREADS, 1)
        emulated.launch(f"cross_entropy_total<{name}>", total, partials, out, kept[3], options[2], blocks, **how)
    return out.result(), kernels.CrossEntropySaved(*[array.result() for array in kept])


def backward(g, x, classes, kept, offset=0, **how):
    (rows, cols), width = x.shape, width_of(x, offset)
    shape, dx = kernels.row_tiles(rows, cols, width, x.itemsize), unset(x.shape, x.dtype, offset)
    weight = None if classes.weight is None else Placed(classes.weight)
    inputs = Placed(g), Placed(x, offset), Placed(classes.target), weight
    numbers = int(g.ndim > 0), int(kept.factor.ndim > 0), classes.ignore_index, classes.smoothing, rows, cols
    name = f"cross_entropy_backward<{kernels.C_NAMES[x.dtype]}, {width}>"
    emulated.launch(name, shape, *inputs, *[Placed(array) for array in kept], dx, *numbers, **how)
    return dx.result()


def close(actual, expected, scale=1.0):
    tolerance = ACCURACY[str(actual.dtype)]
    assert_close(actual, expected, rtol=tolerance, atol=tolerance * scale)


def assert_right(x, classes, reduction, **how):
    result, kept = forward(x, classes, reduction, **how)
    expected, reference = references.cross_entropy(x, classes, reduction)
    terms = 1 if reduction == "mean" else len(x) ** 0.5
    close(result, expected, terms)
    for one, other in zip(kept, reference, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-5)
    g = quarters((len(x),) if reduction == "none" else (), x.dtype)
    close(backward(g, x, classes, kept, how.get("offset", 0)),
          references.cross_entropy_backward(g, x, classes, reference), 10)  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients(dtype, shape, offset, reduction):
    assert_right(*draw(shape, dtype), reduction, offset=offset)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("shape", [(37, 24), (900, 40), (3, 18000)], ids=str)
def test_weights_and_smoothing(dtype, shape, weighed, smoothing, reduction):
    assert_right(*draw(shape, dtype, weighed, smoothing), reduction)


def test_a_class_to_ignore_may_be_one_that_exists(dtype):
    assert_right(*draw((50, 24), dtype, weighed=True, ignore_index=2), "mean")


@pytest.mark.parametrize("shape", [((1, 2), (16, 16)), ((3, 1), (64, 4)), ((5, 3), (256, 1)), ((2, 1), (1, 256))])
def test_any_grid_gives_the_same(dtype, shape):
    """Also with parts that have no column, and blocks that have no row, of their own."""
    (blocks, parts), (_, deep) = shape
    rows = 7 if parts == 1 else blocks * deep
    x, classes = draw((rows, 24), dtype, weighed=True, smoothing=0.25)
    result, kept = forward(x, classes, shape=shape)
    expected, reference = forward(x, classes)
    close(result, expected)
    for one, other in zip(kept, reference, strict=True):
        assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(37, 24), (900, 40), (3, 18000)], ids=str)
def test_orders_give_the_same_bits(dtype, shape):
    x, classes = draw(shape, dtype, True, 0.25)
    (first, kept), *rest = [forward(x, classes, order=order) for order in ORDERS]
    gradient, *gradients = [backward(first, x, classes, kept, order=order) for order in ORDERS]
    for (other, others), another in zip(rest, gradients, strict=True):
        assert_same(other, first)
        assert_same(another, gradient)
        for a, b in zip(others, kept, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_rows(dtype, reduction):
    classes = kernels.Classes(np.zeros(0, np.int64))
    result, _ = forward(np.ones((0, 5), dtype), classes, reduction)
    assert str(result.tolist()) == {"none": "[]", "sum": "0.0", "mean": "nan"}[reduction]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_where_no_row_counts_gradients_are_zero(dtype, reduction):
    x, classes = quarters((6, 24), dtype), kernels.Classes(np.full(6, -100))
    result, kept = forward(x, classes, reduction)
    assert np.isnan(result).all() if reduction == "mean" else not result.any()
    assert not backward(np.ones((), dtype), x, classes, kept).any()


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("cols", [3, 24, 1003, 18000])
def test_nan_and_infinity_stay_in_their_row(dtype, cols, smoothing):
    x = np.zeros((9, cols), dtype)
    x[1, 1], x[2, -1], x[3], x[4, 1:], x[5, 0] = np.nan, np.inf, -np.inf, -np.inf, -np.inf
    x[6] = np.nan
    classes = kernels.Classes(np.array([0, 0, 0, 0, 0, 0, -100, 0, 1]), None, -100, smoothing)
    result, kept = forward(x, classes, "none")
    expected, reference = references.cross_entropy(x, classes, "none")
    close(result, expected)
    assert np.isnan(result.astype(float)).tolist() == [False, True, True, True, *[False] * 5]
    assert result[4] == (np.inf if smoothing else 0)
    assert result[5] == np.inf
    g = np.ones(9, dtype)
    close(backward(g, x, classes, kept), references.cross_entropy_backward(g, x, classes, reference))


def test_a_factor_of_each_row(dtype):
    x, classes = draw((40, 24), dtype, True, 0.25)
    kept = forward(x, classes)[1]
    kept = kept._replace(factor=np.arange(40).astype(kept.factor.dtype) / 8)
    for g in (np.ones((), dtype), np.ones(40, dtype)):
        close(backward(g, x, classes, kept), references.cross_entropy_backward(g, x, classes, kept))


@pytest.mark.parametrize("shape", [(9, 24), (900, 40), (5, 18000)], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_a_class_out_of_range_makes_its_row_nan(dtype, smoothing, shape):
    """Nothing outside of the arrays is read, and no device is stopped."""
    x, classes = draw(shape, dtype, True, smoothing)
    wrong = np.array([-1, shape[1], 2**62, -(2**62)])
    classes.target[1:5] = wrong
    outside = np.isin(np.arange(len(x)), [1, 2, 3, 4])
    for reduction in REDUCTIONS:
        result, kept = forward(x, classes, reduction)
        expected, reference = references.cross_entropy(x, classes, reduction)
        close(result, expected)
        assert np.isnan(result.astype(float)).tolist() == (outside.tolist() if reduction == "none" else True)
        assert np.isnan(kept.counts).tolist() == outside.tolist()  # for second derivatives
        g = np.ones(result.shape, dtype)
        dx = backward(g, x, classes, kept)
        assert (np.isnan(dx.astype(float)) == outside[:, None]).all()
        close(dx, references.cross_entropy_backward(g, x, classes, reference), 10)


def test_large_logits_lose_nothing(dtype):
    """The largest is taken away before the logarithm is added."""
    x = np.full((1, 8), 30000.0, dtype)
    close(forward(x, kernels.Classes(np.array([3])))[0], np.asarray(np.log(8), dtype))


def test_few_logits_take_one_block_and_few_long_rows_several_each():
    assert forward_tiles(128, 10, 1, 4, "mean") == ((1, 1), (8, 32))
    assert forward_tiles(128, 10, 1, 4, "none") == ((4, 1), (8, 32))
    assert forward_tiles(10**6, 10, 1, 4, "mean") == ((4096, 1), (8, 32))
    assert forward_tiles(10**6, 10, 1, 4, "none") == ((4096, 1), (8, 32))
    assert forward_tiles(4096, 50000, 4, 4, "mean") == ((4096, 1), (256, 1))
    assert forward_tiles(16, 50000, 4, 4, "mean") == ((16, 7), (256, 1))


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_race_and_no_undefined_behaviour(dtype, reduction, offset):
    for shape in ((70, 24), (400, 40), (2, 18000)):
        x, classes = draw(shape, dtype, True, 0.25)
        result, kept = forward(x, classes, reduction, offset, check="races")
        assert_same(result, forward(x, classes, reduction, offset)[0])
        g = np.ones(result.shape, dtype)
        assert_same(backward(g, x, classes, kept, offset, check="races"), backward(g, x, classes, kept, offset))


# ---- a step in one launch ------------------------------------------------------------------------------


def step(z, bias, g, classes, reduction="mean", offset=0, in_place=True, **how):
    """What `cross_entropy_step` launches: the loss, dx, its column sums, and z + bias if it has memory of its own."""
    (rows, cols), width, w, dtype = z.shape, width_of(z, offset), kernels.wide(z.dtype), z.dtype
    shape = forward_tiles(rows, cols, width, z.itemsize, reduction)
    across = kernels.sum_tiles(rows, cols, width, z.itemsize)[1][0]
    weight = None if classes.weight is None else Placed(classes.weight)
    logits, out, sums, kept = Placed(z, offset), unset((), dtype), unset((cols,), dtype), unset((3 * rows + 1,), w)
    dx = logits if in_place else unset(z.shape, dtype, offset)
    x = None if bias is None else dx if in_place else unset(z.shape, dtype, offset)
    added = None if bias is None else Placed(bias, offset)
    arrays = logits, added, Placed(classes.target), weight, Placed(g), x, out, dx, sums, kept
    numbers = classes.ignore_index, classes.smoothing, REDUCTIONS.index(reduction), across, rows, cols
    name = f"cross_entropy_step<{kernels.C_NAMES[dtype]}, {width}>"
    emulated.launch(name, shape, *arrays, *numbers, **how)
    return [array.result() for array in (out, dx, sums, *[x] * (bias is not None and not in_place))]


def parts_of_a_step(z, bias, g, classes, reduction="mean", offset=0):
    """The same by the kernels that compute its parts."""
    x = z if bias is None else (z.astype(kernels.wide(z.dtype)) + bias).astype(z.dtype)
    loss, kept = forward(x, classes, reduction, offset)
    dx, (rows, cols), width = backward(g, x, classes, kept, offset), x.shape, width_of(x, offset)
    out, name = unset((cols,), x.dtype, offset), kernels.C_NAMES[x.dtype]
    (across, _), block = kernels.sum_tiles(rows, cols, width, x.itemsize, stages=1)
    summing, arrays = f"column_sum<{name}, {name}, {width}>", (Placed(dx, offset), out, None)
    emulated.launch(summing, ((across, 1), block), *arrays, rows, cols)
    return [loss, dx, out.result(), x]


def draw_step(shape, dtype, weighed=False, smoothing=0.0):
    z, classes = draw(shape, dtype, weighed, smoothing)
    return z, quarters(shape[1:], dtype), quarters((), dtype), classes


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (8, 10), (37, 24), (300, 3), (2, 2001), (800, 5)], ids=str)
def test_a_step_has_the_bits_of_its_parts(dtype, shape, offset, order):
    for weighed, smoothing, reduction in ((False, 0.0, "mean"), (True, 0.25, "sum")):
        z, bias, g, classes = draw_step(shape, dtype, weighed, smoothing)
        for added in (bias, None):
            expected = parts_of_a_step(z, added, g, classes, reduction, offset)
            for in_place in (True, False):
                made = step(z, added, g, classes, reduction, offset, in_place, order=order)
                for one, other in zip(made, expected, strict=False):
                    assert_same(one, other)


def test_no_race_and_no_undefined_behaviour_in_a_step():
    for shape in ((8, 10), (300, 3), (37, 24), (2, 2001)):
        step(*draw_step(shape, np.dtype("float32"), True, 0.25), check="races")


def test_special_values_in_a_step(dtype):
    """NaN, infinities, a class out of range, and rows that are all ignored: as the parts."""
    z, bias, g, classes = draw_step((6, 24), dtype)
    z[0, 1], z[1, 2], z[2, 0], bias[3] = np.nan, np.inf, -np.inf, -0.0
    for target in ([0, 2, 0, 24, -1, 1], [-100] * 6, [-100, -100, -100, 1, 0, 5]):
        there = classes._replace(target=np.array(target))
        expected = parts_of_a_step(z, bias, g, there)
        for one, other in zip(step(z, bias, g, there, in_place=False), expected, strict=True):
            np.testing.assert_array_equal(one.astype(float), other.astype(float))
