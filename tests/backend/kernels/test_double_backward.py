"""bias_activation_double_backward against its NumPy reference, on emulated threads."""

import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, IDS, double_backward, from_result, has_second_derivative
from emulated import ORDERS, assert_close, assert_same, quarters

pytestmark = pytest.mark.cpu
SHAPES = [(1, 1), (1, 8), (2, 3), (37, 24), (40, 45), (3, 520), (4300, 1), (2100, 8)]  # the last two in several parts
TANH, ELU = ("tanh", {}), ("elu", {})
CLOSE = {"float64": 1e-14, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(params=CASES, ids=IDS)
def case(request):
    return request.param


def assert_all_same(actual, expected):
    for array, reference in zip(actual, expected, strict=True):
        if array is None or reference is None:
            assert array is reference
        else:
            assert_same(array, reference)


def reference(case, *arrays, **how):
    return references.bias_activation_double_backward(case[0], *arrays, **how, **case[1])


def draw(shape, dtype, make=quarters):
    """gg, ggb, g, saved and bias."""
    return tuple(make(size, dtype) for size in (shape, shape[1:], shape, shape, shape[1:]))


def normal(shape, dtype):
    return np.random.randn(*shape).astype(dtype)


def without_bias(case, arrays):
    """What the kernel gets: those that save their result need no bias."""
    return (*arrays[:4], None) if from_result(case) else arrays


def near(dtype, case):
    close = CLOSE[str(dtype)]
    return {"rtol": close, "atol": 4 * close * case[1].get("frequency", 1) ** 2}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_orders(dtype, shape, offset, order):
    """Of tanh, of results up to 1."""
    gg, ggb, g, out, _ = draw(shape, dtype)
    out /= dtype.type(4)
    result = double_backward(TANH, gg, ggb, g, out, offset=offset, order=order)
    for array, expected in zip(result, reference(TANH, gg, ggb, g, out), strict=True):
        assert_close(array, expected, rtol=CLOSE[str(dtype)], atol=1e-3 if array is result[2] else 1e-6)


@pytest.mark.parametrize(("shape", "order"), [((37, 24), "forward"), ((5, 7), "reverse"), ((37, 24), 1)], ids=str)
def test_every_activation(case, dtype, shape, order):
    arrays = draw(shape, dtype, normal)
    dg, dx, dbias = double_backward(case, *without_bias(case, arrays), order=order)
    expected = reference(case, *arrays)
    assert_close(dg, expected[0], **near(dtype, case))
    if not has_second_derivative(case):
        assert dx is dbias is None
        assert not expected[1].any()
        return
    assert_close(dx, expected[1], **near(dtype, case))
    assert_close(dbias, expected[2], rtol=10 * CLOSE[str(dtype)], atol=40 * near(dtype, case)["atol"])


@pytest.mark.parametrize("case", [("tanh", {}), ("sigmoid", {})], ids=lambda case: case[0])
def test_gradient_for_the_result(case, dtype):
    arrays = draw((6, 16), dtype, normal)[:4]
    dg, dx, _ = double_backward(case, *arrays, need=(True, True, False), by_result=True)
    expected = reference(case, *arrays, by_result=True)
    assert_close(dg, expected[0], **near(dtype, case))
    assert_close(dx, expected[1], **near(dtype, case))


def test_absent_arrays_count_as_zeros(case, dtype):
    gg, ggb, g, saved, bias = draw((6, 16), dtype)
    zeros, zero = np.zeros_like(gg), np.zeros_like(ggb)
    bias = None if from_result(case) else bias
    for absent, present in (((None, ggb), (zeros, ggb)), ((gg, None), (gg, zero)), ((None, None), (zeros, zero))):
        result = double_backward(case, *absent, g, saved, bias)
        assert_all_same(result, double_backward(case, *present, g, saved, bias))
    assert_all_same(double_backward(case, gg, ggb, g, saved), double_backward(case, gg, ggb, g, saved, zero))


@pytest.mark.parametrize("alone", range(3))
def test_each_result_alone(dtype, alone):
    arrays = draw((70, 24), dtype)
    need = tuple(i == alone for i in range(3))
    for parts in (1, 2):
        result = double_backward(ELU, *arrays, need=need, parts=parts)
        assert [array is not None for array in result] == list(need)
        assert_same(result[alone], double_backward(ELU, *arrays, parts=parts)[alone])


@pytest.mark.parametrize("shape", [(0, 8), (0, 3), (5, 0)])
def test_nothing(case, dtype, shape):
    dg, dx, dbias = double_backward(case, *draw(shape, dtype))
    assert dg.size == 0
    if has_second_derivative(case):
        assert dx.size == 0
        assert_same(dbias, np.zeros(shape[1], dtype))


def test_in_place(case, dtype):
    arrays = without_bias(case, draw((37, 24), dtype))
    assert_all_same(double_backward(case, *arrays, in_place=True), double_backward(case, *arrays))


def test_orders_give_the_same_bits(dtype):
    arrays = draw((2100, 8), dtype, normal)
    first, *rest = [double_backward(ELU, *arrays, order=order)[2] for order in ORDERS]
    for other in rest:
        assert_same(first, other)


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(case, dtype, offset):
    arrays = without_bias(case, draw((70, 24), dtype, lambda *how: quarters(*how) / dtype.type(16)))  # float16 holds it
    for in_place in (False, True):
        double_backward(case, *arrays, offset, parts=2, in_place=in_place, check="races")
    double_backward(case, *arrays, offset, check="races")
