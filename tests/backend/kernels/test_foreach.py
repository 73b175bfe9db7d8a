"""foreach against its NumPy reference, on emulated threads."""

import formula_functors
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, assert_close, assert_same
from list_kernels import FUNCTIONS, Lists, arguments, function_of, instance, numbers_of

from autograd_gpu.backend.kernels.constants import CHUNK

formula_functors.declare()
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
SIZES = [1, 0, 7, 64, CHUNK + 5, 8]
OFFSETS = [0, 1, 3, 0, 1, 0]
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.25, 3.0, -2.5, 60.0]
EPSILON = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(params=FUNCTIONS, ids="_".join)
def function(request):
    return request.param


def foreach(function, inputs, numbers, offsets=None, in_place=False, **how):
    dtype = inputs[0][0].dtype
    out = inputs[0] if in_place else [np.full(array.shape, np.nan).astype(dtype) for array in inputs[0]]
    lists = Lists([out, *inputs[1:]] if in_place else [out, *inputs], offsets)
    if in_place:  # the first input is the result
        lists.addresses.insert(0, lists.addresses[0])
    name, others = instance(function_of(*function), dtype, numbers)
    (result, *_) = lists.launch(name, *others, **how)
    return result


def drawn(function, dtype, sizes=SIZES):
    return [[np.random.standard_normal(size).astype(dtype) for size in sizes] for _ in range(function[1].count("l"))]


def check(function, inputs, offsets=None, in_place=False, values=(0.75, 2.0), **how):
    name, kinds = function
    numbers = numbers_of(kinds, *values)
    actual = foreach(function, inputs, numbers, offsets, in_place, **how)
    for result, *row in zip(actual, *inputs, strict=True):
        expected = references.foreach(name, *arguments(kinds, row, numbers))
        epsilon = EPSILON[str(result.dtype)]
        assert_close(result, expected, rtol=epsilon, atol=epsilon)


@pytest.mark.parametrize("in_place", [False, True])
def test_functions(function, dtype, in_place):
    check(function, drawn(function, dtype), OFFSETS, in_place)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(function, dtype, order):
    check(function, drawn(function, dtype, [3, 0, 70]), order=order)


def test_extremes(function, dtype):
    """NaN and infinity as in NumPy, numbers that are NaN and infinite included."""
    name, kinds = function
    inputs = [[grid.astype(dtype).reshape(-1)] for grid in np.meshgrid(*[EXTREMES] * kinds.count("l"))]
    limits = [(-1.0, 2.0), (-np.inf, 2.0), (0.5, np.inf), (np.nan, 1.0)]
    for values in limits if name == "clamp" else [(0.75, 0.5), (-1, 1), (2, -1)]:
        check(function, inputs, values=values)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0, 1.5])
def test_lerp_meets_its_ends(weight):
    inputs = [[np.float32([0.1, 1e8, -3.0])], [np.float32([0.7, 1.0, 5.0])]]
    (result,) = foreach(("lerp", "lln"), inputs, {"a2": weight})
    assert_close(result, references.foreach("lerp", inputs[0][0], inputs[1][0], weight), rtol=1e-6)
    if weight in (0.0, 1.0):
        assert_same(result, inputs[int(weight)][0])


def test_no_race_and_no_undefined_behaviour(function, dtype):
    check(function, drawn(function, dtype, [1, 0, 37, 600]), [0, 0, 1, 0], check="races")
