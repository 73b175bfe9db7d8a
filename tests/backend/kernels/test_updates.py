"""The kernels of optimizers' updates against the code for the CPU, on emulated threads."""

import formula_functors
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same
from list_kernels import Lists, instance
from updates import ADAM, CASES, LISTED, VARIANTS, drawn, in_list_order, numbers_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import CHUNK

pytestmark = pytest.mark.cpu
formula_functors.declare()
SIZES = [1, 0, 7, 64, 1000, CHUNK - 1, CHUNK + 5, 8]
OFFSETS = [0, 1, 0, 3, 1, 0, 0, 2]
EPSILON = {"float64": 1e-14, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
CASES = [case for case in CASES if case[0] in LISTED]
SEVERAL = ("sgd", "adam_max_exp_avg_sq", "rmsprop_momentum_buffer_grad_avg", "rprop")


def rows_of(label, dtype, sizes=SIZES):
    return [drawn(VARIANTS[label], (size,), dtype, seed) for seed, size in enumerate(sizes)]


def step(label, numbers, rows, offsets=None, live=None, skip=None, **how):
    """The lists after a step, each with the arrays of all rows."""
    variant = VARIANTS[label]
    name, (members, *_) = instance(kernels.update_of(variant.general), rows[0][0].dtype, numbers)
    lists = [[*arrays] for arrays in zip(*[in_list_order(variant, row) for row in rows], strict=True)]
    return Lists(lists, offsets).launch(name, members, live, skip, **how)


def check(label, numbers, rows, actual):
    variant = VARIANTS[label]
    for i, row in enumerate(rows):
        expected = in_list_order(variant, references.updated(variant, row, numbers))
        epsilon = EPSILON[str(row[0].dtype)]
        for arrays, wanted in zip(actual, expected, strict=True):
            assert_close(arrays[i], wanted, rtol=epsilon, atol=epsilon)


@pytest.mark.parametrize(("label", "k"), CASES)
def test_steps(dtype, label, k):
    rows = rows_of(label, dtype)
    check(label, numbers_of(label, k), rows, step(label, numbers_of(label, k), rows, OFFSETS))


@pytest.mark.parametrize("label", SEVERAL)
def test_orders_and_alignment_give_the_same_bits(dtype, label):
    numbers, rows = numbers_of(label, 0), rows_of(label, dtype, [3, 0, 70])
    first, *others = [step(label, numbers, rows, order=order) for order in ORDERS]
    for other in [*others, step(label, numbers, rows, [1, 0, 3])]:
        for mine, theirs in zip(first, other, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert_same(a, b)


@pytest.mark.parametrize("label", SEVERAL)
def test_no_race_and_no_undefined_behaviour(dtype, label):
    numbers, rows = numbers_of(label, -1), rows_of(label, dtype, [1, 0, 37, 600])
    check(label, numbers, rows, step(label, numbers, rows, [0, 0, 1, 0], check="races"))


def test_numbers_of_a_graph_and_a_step_that_is_skipped(dtype):
    """What lies in device memory takes the place of the functor's members."""
    label, rows = "adam", rows_of("adam", dtype, [40, 3])
    live = np.array(kernels.update_of(VARIANTS[label].general).values(**ADAM))
    other = {**ADAM, "rate": 0.5, "decay": 0.5}
    for flag in (0.0, 1.0):
        actual = step(label, other, rows, live=Placed(live), skip=Placed(np.array([flag])))
        if flag:
            for arrays, before in zip(actual, zip(*[in_list_order(VARIANTS[label], r) for r in rows], strict=True),
                                      strict=True):  # fmt: skip
                for a, b in zip(arrays, before, strict=True):
                    assert_same(a, b)
        else:
            check(label, ADAM, rows, actual)


def test_nan_and_infinity_stay_where_they_are(dtype):
    """Infinite parameters have no effect without decay; a NaN in the square goes on to the largest square."""
    label = "adam_max_exp_avg_sq"
    (row,) = rows_of(label, dtype, [40])
    p, g, _, square, _ = row
    p[3], g[5], square[7], g[9] = np.inf, np.nan, np.nan, np.inf
    results = [arrays[0].astype(float) for arrays in step(label, ADAM, [row])]
    parameter, _, square, largest, _ = results
    assert np.isposinf(parameter[3])
    assert np.flatnonzero(np.isnan(parameter)).tolist() == [5, 7, 9]
    assert np.flatnonzero(np.isnan(square)).tolist() == [5, 7]
    assert np.flatnonzero(np.isnan(largest)).tolist() == [5, 7]


def test_hundreds_of_arrays(dtype):
    label = "sgd_momentum_buffer"
    rows = rows_of(label, dtype, [int(size) for size in np.random.randint(0, 70, 300)])
    check(label, numbers_of(label, 1), rows, step(label, numbers_of(label, 1), rows))
