"""bias_relu and bias_relu_backward against their NumPy references, on emulated threads."""

import emulated
import numpy as np
import pytest
from cuda_emu import build
from emulated import DTYPES, ORDERS, Placed, assert_same, quarters, unset, width_of

from autograd_gpu.backend import kernels

reference = kernels.bias_relu_backward_reference
pytestmark = pytest.mark.cpu
SHAPES = [(1, 1), (1, 8), (2, 3), (37, 24), (40, 45), (3, 520), (4300, 1), (2100, 8)]  # the last two in several parts


def forward(x, bias, offset=0, in_place=False, width=None, **how):
    rows, cols = x.shape
    width = width or width_of(x, offset)
    placed = Placed(x, offset)
    out = placed if in_place else unset(x.shape, x.dtype, offset)
    bias = None if bias is None else Placed(bias, offset)
    name = f"bias_relu<{kernels.C_NAMES[x.dtype]}, {width}>"
    emulated.launch(name, kernels.tiles(rows, cols, width, x.itemsize), placed, bias, out, rows, cols, **how)
    return out.result()


def backward(g, out, offset=0, in_place=False, parts=None, need_bias=True, **how):
    rows, cols = g.shape
    width = width_of(g, offset)
    (across, default), block = kernels.sum_tiles(rows, cols, width, g.itemsize)
    parts = parts or default
    placed = Placed(g, offset)
    dx = placed if in_place else unset(g.shape, g.dtype, offset)
    dbias = unset((cols,), g.dtype, offset) if need_bias else None
    partials = unset((parts, cols), kernels.wide(g.dtype)) if parts > 1 else None
    name = f"bias_relu_backward<{kernels.C_NAMES[g.dtype]}, {width}>"
    arguments = placed, Placed(out, offset), dx, dbias, partials, rows, cols
    emulated.launch(name, ((across, parts), block), *arguments, **how)
    if not need_bias:
        return dx.result(), None
    return dx.result(), partials.result().sum(axis=0).astype(g.dtype) if parts > 1 else dbias.result()


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward(dtype, shape, offset, order):
    x, bias = quarters(shape, dtype), quarters(shape[1:], dtype)
    assert_same(forward(x, bias, offset, order=order), kernels.bias_relu_reference(x, bias))


@pytest.mark.parametrize("size", [0, 1, 8, 1001, 4096])
def test_forward_without_bias(dtype, size):
    x = quarters((1, size), dtype)
    assert_same(forward(x, None), kernels.bias_relu_reference(x))


def test_forward_rounds_once(dtype):
    """A half type is added in float32."""
    x, bias = np.random.randn(5, 16).astype(dtype), np.random.randn(16).astype(dtype)
    assert_same(forward(x, bias), kernels.bias_relu_reference(x, bias))


def specials(dtype):
    """Values of `out`, and the gradients that meet them."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 60000.0], dtype)
    gradients = np.array([1.0, np.nan, np.inf, -np.inf], dtype)
    return tuple(a.reshape(1, -1) for a in np.meshgrid(values, gradients))


def test_special_values(dtype):
    out, g = specials(dtype)
    assert_same(forward(out, None), kernels.bias_relu_reference(out))
    assert_same(backward(g, out)[0], reference(g, out)[0])


def test_references_are_pytorchs():
    torch = pytest.importorskip("torch")
    out, g = specials(np.dtype("float32"))
    x, bias = torch.tensor(out, requires_grad=True), torch.zeros(out.shape[1], requires_grad=True)
    result = torch.relu(x + bias)
    result.backward(torch.tensor(g))
    assert_same(kernels.bias_relu_reference(out, np.zeros_like(out[0])), result.detach().numpy())
    dx, dbias = reference(g, result.detach().numpy())
    assert_same(dx, x.grad.numpy())
    assert_same(dbias, bias.grad.numpy())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward(dtype, shape, offset, order):
    g, out = quarters(shape, dtype), quarters(shape, dtype)
    for found, expected in zip(backward(g, out, offset, order=order), reference(g, out), strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("parts", [2, 3])
def test_backward_in_parts(dtype, parts):
    """Also with parts that have no row of their own."""
    for rows in (1, 70):
        g, out = quarters((rows, 24), dtype), quarters((rows, 24), dtype)
        assert_same(backward(g, out, parts=parts)[1], reference(g, out)[1])


@pytest.mark.parametrize("shape", [(0, 8), (0, 3), (5, 0)])
def test_backward_of_nothing(dtype, shape):
    dx, dbias = backward(quarters(shape, dtype), quarters(shape, dtype))
    assert dx.size == 0
    assert_same(dbias, np.zeros(shape[1], dtype))


def test_backward_without_bias(dtype):
    g, out = quarters((6, 16), dtype), quarters((6, 16), dtype)
    assert_same(backward(g, out, need_bias=False)[0], reference(g, out)[0])


def test_in_place(dtype):
    x, out, bias = quarters((37, 24), dtype), quarters((37, 24), dtype), quarters((24,), dtype)
    assert_same(forward(x, bias, in_place=True), kernels.bias_relu_reference(x, bias))
    for found, expected in zip(backward(x, out, in_place=True), reference(x, out), strict=True):
        assert_same(found, expected)


def test_sum_of_large_numbers_of_small_ones(dtype):
    """In the type itself 4000 ones of float16 would add up to 2048, of bfloat16 to 256."""
    ones = np.ones((4000, 2), dtype)
    assert backward(ones, ones)[1].tolist() == [4000, 4000]


def test_orders_give_the_same_bits(dtype):
    g, out = (np.random.randn(2100, 8).astype(dtype) for _ in range(2))
    first, *rest = [backward(g, out, order=order)[1] for order in ORDERS]
    for other in rest:
        assert_same(first, other)


@pytest.mark.parametrize("check", ["races", "undefined"])
@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(dtype, offset, check):
    g, out, bias = quarters((70, 24), dtype), quarters((70, 24), dtype), quarters((24,), dtype)
    forward(out, bias, offset, check=check)
    for in_place in (False, True):
        backward(g, out, offset, in_place, parts=2, check=check)
    backward(g, out, offset, check=check)


def test_wide_instance_needs_aligned_arrays(dtype):
    """That the host chooses the instance by the addresses is no luxury."""
    x = quarters((4, 16), dtype)
    with pytest.raises(build.UndefinedBehaviour, match="misaligned"):
        forward(x, None, offset=1, width=kernels.VECTOR // x.itemsize, check="undefined")
