"""Second derivatives on the device of the run, in float32: the kernels of streams and local terms."""

import numpy as np
import pytest
from random_graphs import RandomGraph

import autograd_gpu as ag
from autograd_gpu import func, nn


def close(actual, expected):
    expected = expected.numpy(force=True)
    np.testing.assert_allclose(actual.numpy(force=True), expected, rtol=2e-4, atol=2e-4 * (1 + abs(expected).max()))


def gradients_of(h, parameters):
    """Of the sum of squares of h; zeros if h has no graph."""
    if not h.requires_grad:
        return [ag.zeros_like(p) for p in parameters]
    return ag.autograd.grad((h**2).sum(), parameters, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.SiLU, nn.GELU, nn.Softplus, nn.ReLU])
@pytest.mark.parametrize("outputs", [1, 3])
def test_networks(activation, outputs, device):
    net = nn.Sequential(nn.Linear(2, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, outputs))
    x = ag.randn(5, 2)
    expected = func.vmap(func.hessian(net, method="nested"))(x)
    parameters = list(net.parameters())
    gradients = gradients_of(expected, parameters)
    for method in ("push", "pull"):
        hessians = func.vmap(func.hessian(net, method=method))(x)
        assert hessians.device.type == device
        close(hessians, expected)
        close(func.vmap(func.laplacian(net, method=method))(x), expected.diagonal(0, -2, -1).sum(-1))
        for mine, other in zip(gradients_of(hessians, parameters), gradients, strict=True):
            close(mine, other)


@pytest.mark.parametrize("seed", range(0, 300, 20))
def test_random_graphs(seed, device):
    graph = RandomGraph(seed)
    f = graph.function(ag, ag.tensor(graph.w))
    expected = func.hessian(f, method="nested")(ag.tensor(graph.x))
    for method in ("push", "pull"):
        close(func.hessian(f, method=method)(ag.tensor(graph.x)), expected)
