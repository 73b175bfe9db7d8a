"""torchdiffeq: solvers of ordinary differential equations, with and without the adjoint method."""

import math

import pytest
import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event


@pytest.mark.parametrize("method", ["dopri5", "dopri8", "bosh3", "adaptive_heun", "rk4", "midpoint", "implicit_adams"])
def test_decay(method):
    t = torch.linspace(0, 1, 21, dtype=torch.float64)
    y = odeint(lambda t, y: -y, torch.ones(2, dtype=torch.float64), t, method=method)
    assert torch.allclose(y[:, 0], torch.exp(-t), atol=1e-3)


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64))

    def forward(self, t, y):
        return y @ self.a


def test_adjoint_gradients_are_those_of_backpropagation():
    start, t = torch.tensor([[2.0, 0.0]], dtype=torch.float64), torch.linspace(0, 2, 5, dtype=torch.float64)
    grads = []
    for solve in (odeint, odeint_adjoint):
        net = Linear()
        solve(net, start, t, rtol=1e-9, atol=1e-9).square().sum().backward()
        grads.append(net.a.grad)
    assert torch.allclose(*grads, rtol=1e-5)


def test_event():
    start = torch.tensor([1.0], dtype=torch.float64)
    t, _ = odeint_event(lambda t, y: -y, start, torch.tensor(0.0, dtype=torch.float64),
                        event_fn=lambda t, y: y[0] - 0.5, atol=1e-8, rtol=1e-8)  # fmt: skip
    assert abs(t.item() - math.log(2)) < 1e-4
