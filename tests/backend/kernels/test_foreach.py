"""foreach against its NumPy reference, on emulated threads."""

import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, assert_close, assert_same
from list_kernels import Lists

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import CHUNK
from autograd_gpu.backend.kernels.foreach import FUNCTIONS

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
SIZES = [1, 0, 7, 64, CHUNK + 5, 8]
OFFSETS = [0, 1, 3, 0, 1, 0]
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.25, 3.0, -2.5, 60.0]


@pytest.fixture(params=FUNCTIONS)
def name(request):
    return request.param


def foreach(name, inputs, offsets=None, in_place=False, a=0.75, b=2.0, **how):
    dtype = inputs[0][0].dtype
    out = inputs[0] if in_place else [np.full(array.shape, np.nan).astype(dtype) for array in inputs[0]]
    lists = Lists([out, *inputs[1:]] if in_place else [out, *inputs], offsets)
    if in_place:  # the first input is the result
        lists.addresses.insert(0, lists.addresses[0])
    (result, *_) = lists.launch(f"foreach<{FUNCTIONS[name].functor}, {kernels.C_NAMES[dtype]}>", a, b, None, **how)
    return result


def drawn(name, dtype, sizes=SIZES):
    return [[np.random.standard_normal(size).astype(dtype) for size in sizes] for _ in range(FUNCTIONS[name].inputs)]


def check(name, actual, inputs, a=0.75, b=2.0):
    for result, *row in zip(actual, *inputs, strict=True):
        expected = references.foreach(name, *row, a=a, b=b)
        epsilon = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[str(result.dtype)]
        assert_close(result, expected, rtol=epsilon, atol=epsilon)


@pytest.mark.parametrize("in_place", [False, True])
def test_functions(name, dtype, in_place):
    inputs = drawn(name, dtype)
    check(name, foreach(name, inputs, OFFSETS, in_place), inputs)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(name, dtype, order):
    inputs = drawn(name, dtype, [3, 0, 70])
    check(name, foreach(name, inputs, order=order), inputs)


def test_extremes(name, dtype):
    """NaN and infinity as in NumPy, scalars that are NaN and infinite included."""
    count = FUNCTIONS[name].inputs
    inputs = [[grid.astype(dtype).reshape(-1)] for grid in np.meshgrid(*[EXTREMES] * count)]
    limits = [(-1.0, 2.0), (-np.inf, 2.0), (0.5, np.inf)]
    for a, b in limits if name == "clamp" else [(0.75, 0), (-1, 0), (np.inf, 0), (2, 0)]:
        check(name, foreach(name, inputs, a=a, b=b), inputs, a, b)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0, 1.5])
def test_lerp_meets_its_ends(weight):
    inputs = [[np.float32([0.1, 1e8, -3.0])], [np.float32([0.7, 1.0, 5.0])]]
    (result,) = foreach("lerp_scalar", inputs, a=weight)
    assert_close(result, references.foreach("lerp_scalar", inputs[0][0], inputs[1][0], a=weight), rtol=1e-6)
    if weight in (0.0, 1.0):
        assert_same(result, inputs[int(weight)][0])


@pytest.mark.parametrize("build", ["races", "undefined"])
def test_no_race_and_no_undefined_behaviour(name, dtype, build):
    inputs = drawn(name, dtype, [1, 0, 37, 600])
    check(name, foreach(name, inputs, [0, 0, 1, 0], check=build), inputs)
