"""Gradients of activations of large arrays, which the CPU computes by blocks and in one pass for both inputs."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.ops._support.blocks import BLOCK
from autograd_gpu.ops.nn.activation import sigmoid_grad, tanh_grad

ROWS, COLUMNS = 16, BLOCK // 8  # two blocks


@pytest.mark.parametrize("case", ["plain", "transposed", "broadcast", "one input"])
@pytest.mark.parametrize(("grad", "derivative", "second"), [
    (sigmoid_grad, lambda y: y * (1 - y), lambda y: 1 - 2 * y), (tanh_grad, lambda y: 1 - y * y, lambda y: -2 * y),
])  # fmt: skip
def test_double_backward_of_large_arrays(device, grad, derivative, second, case):
    rng = np.random.default_rng(0)
    g, h, y = (rng.uniform(0.1, 0.9, (ROWS, COLUMNS)) for _ in range(3))
    if case == "transposed":
        g, h, y = g.T.copy().T, h.T.copy().T, y.T.copy().T
    if case == "broadcast":
        h = h[:1]
    h, y = ag.tensor(h, requires_grad=True), ag.tensor(y, requires_grad=True)
    inputs = (y,) if case == "one input" else (h, y)
    grads = ag.autograd.grad(grad(h, y), inputs, ag.tensor(g))
    h, y = h.numpy(force=True), y.numpy(force=True)
    expected = [g * derivative(y), g * h * second(y)]
    if case == "broadcast":
        expected[0] = expected[0].sum(0, keepdims=True)
    for actual, exact in zip(grads, expected[-len(inputs) :], strict=True):
        assert np.allclose(actual.numpy(force=True), exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("grad", [sigmoid_grad, tanh_grad])
def test_a_number_beside_a_large_array(device, grad):
    y = ag.rand(ROWS, COLUMNS)
    assert ag.allclose(grad(ag.tensor(2.0), y), grad(ag.full_like(y, 2.0), y))
