"""make_graphed_callables: values and two derivatives are those of the callable itself."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend

pytestmark = pytest.mark.cuda


def plain(tensor):
    return backend.to_numpy(tensor.detach().array)


def network():
    model = ag.nn.Sequential(ag.nn.Linear(3, 5), ag.nn.Tanh(), ag.nn.Linear(5, 2))
    w, b, w2, b2 = model.parameters()
    return model, lambda x: ag.nn.functional.linear(ag.nn.functional.linear(x, w, b).tanh(), w2, b2)


def derivatives(function, leaves, x):
    """Results, gradients, gradients with a graph, and the derivatives of these."""
    first = ag.autograd.grad(function(x).sum(), [x, *leaves])
    y = function(x)
    (slope,) = ag.autograd.grad((y**2).sum(), x, create_graph=True)
    return [y, slope, *first, *ag.autograd.grad((slope**2).sum() + y.sum(), [x, *leaves], allow_unused=True)]


def test_two_derivatives(schedule):
    model, eager = network()
    leaves = list(model.parameters())
    graphed = ag.cuda.make_graphed_callables(model, (ag.randn(4, 3, requires_grad=True),))
    assert graphed is model
    for _ in range(3):
        x = ag.randn(4, 3, requires_grad=True)
        ours, reference = (derivatives(function, leaves, x) for function in (graphed, eager))
        for a, b in zip(ours, reference, strict=True):
            np.testing.assert_allclose(plain(a), plain(b), rtol=1e-5, atol=1e-6)


def test_training_gives_the_gradients_to_the_parameters(device):
    model, eager = network()
    x = ag.randn(4, 3)
    eager(x).sum().backward()
    expected = [plain(p.grad) for p in model.parameters()]
    model.zero_grad()
    graphed = ag.cuda.make_graphed_callables(model, (ag.randn(4, 3),))
    graphed(x).sum().backward()
    for p, reference in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(plain(p.grad), reference, rtol=1e-5)


def test_a_tuple_of_callables_shares_a_pool(device):
    double, square = ag.cuda.make_graphed_callables(
        (lambda x: x * 2, lambda x: x**2), ((ag.ones(3, requires_grad=True),), (ag.ones(3, requires_grad=True),))
    )
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    square(double(x)).sum().backward()
    assert x.grad.tolist() == [8, 16, 24]


def test_a_backward_belongs_to_the_forward_before_it(device):
    graphed = ag.cuda.make_graphed_callables(lambda x: x**2, (ag.ones(3, requires_grad=True),))
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = graphed(x)
    graphed(x * 2)
    with pytest.raises(RuntimeError, match="was called again since"):
        y.sum().backward()


def test_the_third_derivative_is_refused(device):
    graphed = ag.cuda.make_graphed_callables(lambda x: x**4, (ag.ones(2, requires_grad=True),))
    x = ag.ones(2, requires_grad=True)
    (first,) = ag.autograd.grad(graphed(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable twice"):
        ag.autograd.grad(first.sum(), x, create_graph=True)


def test_unused_inputs(device):
    samples = ag.ones(2, requires_grad=True), ag.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused_input=True"):
        ag.cuda.make_graphed_callables(lambda x, y: x * 2, samples)
    graphed = ag.cuda.make_graphed_callables(lambda x, y: x * 2, samples, allow_unused_input=True)
    graphed(*samples).sum().backward()
    assert samples[0].grad.tolist() == [2, 2]
    assert samples[1].grad is None


def test_other_inputs_are_refused(device):
    graphed = ag.cuda.make_graphed_callables(lambda x: x * 2, (ag.ones(3),))
    with pytest.raises(RuntimeError, match=r"inputs of shape \[3\] and dtype .*float32, but got \[4\]"):
        graphed(ag.ones(4))
    with pytest.raises(TypeError, match="must be tensors on the CUDA device"):
        ag.cuda.make_graphed_callables(lambda x: x * 2, (ag.ones(3, device="cpu"),))
