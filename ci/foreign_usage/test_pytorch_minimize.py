"""pytorch-minimize: minimization of functions by first and second derivatives."""

import pytest
import torch
from torchmin import Minimizer, minimize, minimize_constr
from torchmin.benchmarks import rosen


@pytest.mark.parametrize("method", ["bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact"])
def test_minimum_of_rosenbrocks_function(method):
    start = torch.tensor([0.8, 0.9], dtype=torch.float64)
    result = minimize(rosen, start, method=method)
    assert torch.allclose(result.x, torch.ones(2, dtype=torch.float64), atol=1e-3)


def test_bounds():
    start = torch.tensor([0.2, 0.3], dtype=torch.float64)
    result = minimize_constr(rosen, start, bounds=(0.0, 0.5), method="trust-constr")
    assert torch.allclose(result.x, torch.tensor([0.5, 0.25], dtype=torch.float64), atol=1e-2)


def test_optimizer():
    net, x = torch.nn.Linear(2, 1), torch.randn(32, 2)
    y = x @ torch.tensor([[1.0], [-2.0]]) + 0.5
    optimizer = Minimizer(net.parameters(), method="bfgs")

    def closure():
        optimizer.zero_grad()
        return torch.nn.functional.mse_loss(net(x), y)

    optimizer.step(closure)
    assert closure().item() < 1e-6
