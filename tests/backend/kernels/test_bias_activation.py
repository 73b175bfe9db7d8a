"""bias_activation and its backward against their NumPy references, on emulated threads."""

import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, IDS, backward, forward, from_result
from cuda_emu import build
from emulated import ORDERS, assert_close, assert_same, quarters

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
SHAPES = [(1, 1), (1, 8), (2, 3), (37, 24), (40, 45), (3, 520), (4300, 1), (2100, 8)]  # the last two in several parts
RELU, TANH = ("relu", {}), ("tanh", {})
# Of a result near 1, in units of what it is computed in; and of the same rounded to float16 and bfloat16.
CLOSE = {"float64": 1e-14, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(params=CASES, ids=IDS)
def case(request):
    return request.param


def reference(case, x, bias=None):
    return references.bias_activation(case[0], x, bias, **case[1])


def backward_reference(case, g, saved, bias=None):
    return references.bias_activation_backward(case[0], g, saved, bias, **case[1])


def saved_by(case, x, bias):
    return reference(case, x, bias) if from_result(case) else x


def near(dtype, case):
    """Tolerances; a sine's derivatives grow with its frequency."""
    close = CLOSE[str(dtype)]
    return {"rtol": close, "atol": close * case[1].get("frequency", 1)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_and_backward(dtype, shape, offset, order):
    """Of one activation of each kind in every shape and order: relu is exact."""
    x, bias, g = quarters(shape, dtype), quarters(shape[1:], dtype), quarters(shape, dtype)
    out = reference(RELU, x, bias)
    assert_same(forward(RELU, x, bias, offset, order=order), out)
    for actual, expected in zip(
        backward(RELU, g, out, offset=offset, order=order), backward_reference(RELU, g, out), strict=True
    ):
        assert_same(actual, expected)


@pytest.mark.parametrize(("shape", "order"), [((37, 24), "forward"), ((5, 7), "reverse"), ((37, 24), 1)], ids=str)
def test_every_activation(case, dtype, shape, order):
    x, bias, g = (np.random.randn(*size).astype(dtype) for size in (shape, shape[1:], shape))
    assert_close(forward(case, x, bias, order=order), reference(case, x, bias), **near(dtype, case))
    saved = saved_by(case, x, bias)
    dx, dbias = backward(case, g, saved, None if from_result(case) else bias, order=order)
    expected, total = backward_reference(case, g, saved, bias)
    assert_close(dx, expected, **near(dtype, case))
    assert_close(dbias, total, rtol=10 * CLOSE[str(dtype)], atol=10 * near(dtype, case)["atol"])


@pytest.mark.parametrize("size", [0, 1, 8, 1001, 4096])
def test_without_bias(dtype, size):
    x, g = quarters((1, size), dtype), quarters((1, size), dtype)
    assert_same(forward(RELU, x), reference(RELU, x))
    silu = ("silu", {})
    assert_close(forward(silu, x), reference(silu, x), **near(dtype, silu))
    dx, dbias = backward(silu, g, x, need_bias=False)
    assert_close(dx, backward_reference(silu, g, x)[0], **near(dtype, silu))
    assert dbias is None


def test_forward_rounds_once(dtype):
    """A half type is added in float32."""
    x, bias = np.random.randn(5, 16).astype(dtype), np.random.randn(16).astype(dtype)
    assert_same(forward(RELU, x, bias), reference(RELU, x, bias))


def specials(dtype):
    """Values of `out`, and the gradients that meet them."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 60000.0], dtype)
    gradients = np.array([1.0, np.nan, np.inf, -np.inf], dtype)
    return tuple(a.reshape(1, -1) for a in np.meshgrid(values, gradients))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_special_values(case, dtype):
    s, g = specials(dtype)
    if "frequency" in case[1]:
        s = s[:, :7].copy()  # float32 knows 30 * 60000 to a sixth of a radian
        g = g[:, :7].copy()
    assert_close(forward(case, s), reference(case, s), **near(dtype, case))
    dx, dbias = backward(case, g, s)
    expected, total = backward_reference(case, g, s)
    assert_close(dx, expected, **near(dtype, case))
    assert_close(dbias, total, **near(dtype, case))


@pytest.mark.parametrize("parts", [2, 3])
def test_backward_in_parts(dtype, parts):
    """Also with parts that have no row of their own, and rows that a turn of the loop reads past."""
    for rows in (1, 70):
        g, out = quarters((rows, 24), dtype), quarters((rows, 24), dtype)
        assert_same(backward(RELU, g, out, parts=parts)[1], backward_reference(RELU, g, out)[1])


def test_rows_past_the_end_add_nothing(case, dtype):
    """The derivative at 0 + bias may be infinite or NaN; a row that is not there has no part in the sum."""
    g, x = np.ones((1, 3), dtype), np.zeros((1, 3), dtype)
    bias = np.array([-np.inf, np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        once = backward(case, g, x, None if from_result(case) else bias)[1]
        expected = backward_reference(case, g, x, bias)[1]
    assert_close(once, expected, **near(dtype, case))


@pytest.mark.parametrize("shape", [(0, 8), (0, 3), (5, 0)])
def test_backward_of_nothing(case, dtype, shape):
    dx, dbias = backward(case, quarters(shape, dtype), quarters(shape, dtype), quarters(shape[1:], dtype))
    assert dx.size == 0
    assert_same(dbias, np.zeros(shape[1], dtype))


def test_in_place(case, dtype):
    x, g, bias = quarters((37, 24), dtype), quarters((37, 24), dtype), quarters((24,), dtype)
    assert_same(forward(case, x, bias, in_place=True), forward(case, x, bias))
    bias = None if from_result(case) else bias
    for actual, expected in zip(backward(case, g, x, bias, in_place=True), backward(case, g, x, bias), strict=True):
        assert_same(actual, expected)


def test_sum_of_large_numbers_of_small_ones(dtype):
    """In the type itself 4000 ones of float16 would add up to 2048, of bfloat16 to 256."""
    ones = np.ones((4000, 2), dtype)
    assert backward(RELU, ones, ones)[1].tolist() == [4000, 4000]


def test_bias_is_summed_before_rounding():
    """259 times 1 - 0.00193, which bfloat16 rounds to 1: 259 would become 260, and 258.5 becomes 258."""
    bfloat16 = np.dtype("bfloat16")
    dx, dbias = backward(TANH, np.ones((259, 1), bfloat16), np.full((259, 1), 0.0439453125, bfloat16))
    assert dx.tolist() == [[1.0]] * 259
    assert dbias.tolist() == [258.0]


def test_orders_give_the_same_bits(dtype):
    g, out = (np.random.randn(2100, 8).astype(dtype) for _ in range(2))
    first, *rest = [backward(TANH, g, out, order=order)[1] for order in ORDERS]
    for other in rest:
        assert_same(first, other)


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(case, dtype, offset):
    g, x, bias = quarters((70, 24), dtype), quarters((70, 24), dtype), quarters((24,), dtype)
    forward(case, x, bias, offset, check="races")
    bias = None if from_result(case) else bias
    for in_place in (False, True):
        backward(case, g, x, bias, offset, in_place, parts=2, check="races")
    backward(case, g, x, bias, offset, check="races")


def test_wide_instance_needs_aligned_arrays(dtype):
    """That the host chooses the instance by the addresses is no luxury."""
    x = quarters((4, 16), dtype)
    with pytest.raises(build.UndefinedBehaviour, match="misaligned"):
        forward(RELU, x, offset=1, width=kernels.VECTOR // x.itemsize, check="races")
