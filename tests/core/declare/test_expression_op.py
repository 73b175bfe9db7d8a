"""Ops with several results from expressions: values, derivatives of several orders, tangents, batches."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func
from autograd_gpu.autograd import grad, gradcheck, gradgradcheck
from autograd_gpu.backend.formulas.expression import element, number, root, select
from autograd_gpu.core.declare.expression_op import ExpressionOp
from autograd_gpu.core.extend import RECORD

pytestmark = pytest.mark.cpu
X, Y, S, N = element("x"), element("y"), element("scale"), number("n")
OP = ExpressionOp("pair", ["scale"], ["x", "y"], {"a": S * X * X * Y + N, "b": root(Y) / (S + X), "c": X}, ["n"])
ONE = ExpressionOp("single", [], ["x"], {"a": select(X > 0, X * X * X, 0)}, [])


def pair(s, x, y):
    return OP(RECORD, {"scale": s, "x": x, "y": y}, (0.5,))


def inputs():
    rng = np.random.default_rng(0)
    return [ag.tensor(rng.uniform(0.5, 2, shape), requires_grad=True) for shape in ((), (3, 2), (3, 2))]


def test_values(device):
    s, x, y = [t.detach().to(device) for t in inputs()]
    results = pair(s, x, y)
    expected = {"a": s * x * x * y + 0.5, "b": y.sqrt() / (s + x), "c": x}
    assert list(results) == list(expected)
    for name, result in results.items():
        np.testing.assert_allclose(result.numpy(force=True), expected[name].numpy(force=True), rtol=1e-14)
    (single,) = ONE(RECORD, {"x": x - 1}, ()).values()
    np.testing.assert_allclose(single.numpy(force=True), (x - 1).clamp(0).pow(3).numpy(force=True), rtol=1e-14)


def test_gradients_of_first_and_second_order():
    def function(s, x, y):
        return tuple(pair(s, x, y).values())

    assert gradcheck(function, inputs(), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, inputs())


def test_a_third_derivative():
    (x,) = [t for t in inputs() if t.dim()][:1]
    y = ONE(RECORD, {"x": x}, ())["a"].sum()
    for expected in (3 * x * x, 6 * x, ag.full_like(x, 6.0)):
        (y,) = grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def test_only_what_is_needed_has_a_gradient():
    """A result that is not used, an input that wants none, and a derivative that is zero."""
    s, x, y = inputs()
    (by_y,) = grad(pair(s.detach(), x.detach(), y)["a"].sum(), y)
    np.testing.assert_allclose(by_y.numpy(), (s * x * x).detach().numpy(), rtol=1e-14)
    assert grad(pair(s, x, y)["c"].sum(), y, allow_unused=True, materialize_grads=True)[0].tolist() == [[0, 0]] * 3
    (at_zero,) = grad(pair(s, x, zero := ag.zeros(3, 2, dtype=ag.float64, requires_grad=True))["b"].sum(), zero)
    assert at_zero.tolist() == [[0, 0]] * 3


def test_batches():
    s, x, y = [t.detach() for t in inputs()]
    together = func.vmap(lambda x, y: pair(s, x, y)["b"])(x, y)
    np.testing.assert_allclose(together.numpy(), pair(s, x, y)["b"].numpy(), rtol=1e-14)
    slopes = func.vmap(func.grad(lambda x, y: pair(s, x, y)["a"].sum()))(x, y)
    np.testing.assert_allclose(slopes.numpy(), (2 * s * x * y).numpy(), rtol=1e-13)
