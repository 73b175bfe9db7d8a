"""What the kernels compute is what the ops compute: their references equal the ops, and so do they themselves."""

import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, IDS, backward, double_backward, forward, from_result, has_second_derivative

import autograd_gpu as ag
from autograd_gpu.core.dispatch import RAW

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
# Where formulas overflow, cancel or meet a kink.
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e-4, -1e-4, 3.0, -3.0, 1.5, 1.6, 8.0, -8.0,
            19.0, 21.0, -21.0, 90.0, -90.0, 800.0, -800.0, 1e6, -1e6, 1e20, -1e20, 1e30, -1e30]  # fmt: skip


@pytest.fixture(params=CASES, ids=IDS)
def case(request):
    return request.param


def by_ops(case, F):
    """The op, or for the sine the product and the op, as a function of x on arrays or tensors."""
    name, attributes = case
    if name == "sine":
        return lambda x: F.sin(x * x.dtype.type(attributes["frequency"]) if F is RAW else x * attributes["frequency"])
    return lambda x: getattr(F, name)(x, **attributes)


def ops_derivatives(case, x, g, h):
    """The gradient of the op for g, and the gradients of that for h: by g, and by x."""
    x, g, h = ag.tensor(x, requires_grad=True), ag.tensor(g, requires_grad=True), ag.tensor(h)
    (dx,) = ag.autograd.grad(by_ops(case, ag.ops)(x), x, g, create_graph=True)
    dg, dx2 = ag.autograd.grad(dx, [g, x], h, allow_unused=True, materialize_grads=True)
    return dx.detach().numpy(), dg.detach().numpy(), dx2.numpy()


def extremes(dtype):
    return tuple(a.reshape(1, -1) for a in np.meshgrid(np.array(EXTREMES, dtype), np.array([1.0, -2.0], dtype)))


def saved_by(case, x):
    return references.bias_activation(case[0], x, **case[1]) if from_result(case) else x


def assert_near(actual, expected, digits):
    np.testing.assert_allclose(actual, expected, rtol=digits, atol=digits, strict=True)


@pytest.mark.parametrize("inputs", ["normal", "extreme"])
def test_references_are_the_ops(case, inputs):
    x, g = extremes("float64") if inputs == "extreme" else (3 * np.random.randn(4, 50), np.random.randn(4, 50))
    h, (name, attributes) = np.ones_like(g) / 2, case
    saved, zero = saved_by(case, x), np.zeros(x.shape[1])
    assert_near(references.bias_activation(name, x, **attributes), by_ops(case, RAW)(x), 1e-13)
    dx, dg, dx2 = ops_derivatives(case, x, g, h)
    assert_near(references.bias_activation_backward(name, g, saved, **attributes)[0], dx, 1e-12)
    result = references.bias_activation_double_backward(name, h, zero, g, saved, **attributes)
    assert_near(result[0], dg, 1e-12)
    if has_second_derivative(case):
        assert_near(result[1], dx2, 1e-10)
    else:
        assert not result[1].any()
        assert not np.nan_to_num(dx2).any()


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 4e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("inputs", ["normal", "extreme"])
def test_kernels_are_the_ops(case, inputs, dtype, digits):
    x, g = extremes(dtype) if inputs == "extreme" else (3 * np.random.randn(4, 50), np.random.randn(4, 50))
    x, g = x.astype(dtype), g.astype(dtype)
    h, saved, slope = np.ones_like(g) / 2, saved_by(case, x), case[1].get("frequency", 1)
    assert_near(forward(case, x), by_ops(case, RAW)(x), digits)
    dx, dg, dx2 = ops_derivatives(case, x, g, h)
    assert_near(backward(case, g, saved)[0], dx, digits * slope)
    result = double_backward(case, h, None, g, saved)
    assert_near(result[0], dg, digits * slope)
    if has_second_derivative(case):
        assert_near(result[1], dx2, 10 * digits * slope**2)


def test_derivatives_are_those_of_the_function():
    """At points off the kinks, by central differences in float64."""
    step = 1e-5
    for name, attributes in CASES:
        def value(x, name=name, attributes=attributes):
            return references.bias_activation(name, x, **attributes)

        def slope(x, case=(name, attributes)):
            ones = np.ones_like(x)
            return references.bias_activation_backward(case[0], ones, saved_by(case, x), **case[1])[0]

        x = np.array([[-2.3, -0.4, 0.3, 1.2, 2.7]])
        one, none, frequency = np.ones_like(x), np.zeros(5), attributes.get("frequency", 1)
        saved = saved_by((name, attributes), x)
        second = references.bias_activation_double_backward(name, one, none, one, saved, **attributes)[1]
        between = 2 * step
        np.testing.assert_allclose(slope(x), (value(x + step) - value(x - step)) / between, atol=1e-6 * frequency**3)
        np.testing.assert_allclose(second, (slope(x + step) - slope(x - step)) / between, atol=1e-6 * frequency**4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sine_of_angles_of_every_size(dtype):
    """NumPy reduces angles exactly, up to the largest number."""
    digits = np.finfo(dtype)
    sizes = 2.0 ** np.arange(digits.minexp + 1, digits.maxexp - 1, 0.37)
    x = np.concatenate([sizes, -sizes, np.pi * np.arange(0, 200, 0.5)]).astype(dtype)[None]
    result = forward(("sine", {"frequency": 1.0}), x)
    np.testing.assert_allclose(result, np.sin(x), rtol=0, atol=4 * digits.eps)
    small = np.abs(x) < 1e-3
    np.testing.assert_allclose(result[small], x[small], rtol=1e-6)
    cosine = backward(("sine", {"frequency": 1.0}), np.ones_like(x), x, need_bias=False)[0]
    np.testing.assert_allclose(cosine, np.cos(x), rtol=0, atol=4 * digits.eps)
