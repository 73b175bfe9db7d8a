"""torchsde: stochastic differential equations, with gradients by the steps and by the adjoint method."""

import math

import pytest
import torch
import torchsde


class Geometric(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.mu = torch.nn.Parameter(torch.tensor(0.5))

    def f(self, t, y):
        return self.mu * y

    def g(self, t, y):
        return 0.1 * y


@pytest.mark.parametrize("method", ["euler", "milstein", "srk"])
def test_mean_of_geometric_motion(method):
    torch.manual_seed(0)
    y = torchsde.sdeint(Geometric(), torch.ones(2000, 1), torch.linspace(0, 1, 3), method=method, dt=0.05)
    assert y[-1].mean().item() == pytest.approx(math.exp(0.5), rel=0.05)


def test_adjoint_gradient():
    torch.manual_seed(0)
    net = Geometric()
    y = torchsde.sdeint_adjoint(net, torch.ones(500, 1), torch.linspace(0, 1, 2), dt=0.05, method="euler")
    y[-1].mean().backward()
    assert net.mu.grad.item() == pytest.approx(math.exp(0.5), rel=0.1)
