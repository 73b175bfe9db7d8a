"""torchode: batches of ordinary differential equations, each with its own steps."""

import torch
import torchode as to


def solver(f):
    term = to.ODETerm(f)
    step, controller = to.Dopri5(term=term), to.IntegralController(atol=1e-6, rtol=1e-3, term=term)
    return to.AutoDiffAdjoint(step, controller)


def test_batch_of_decays():
    start = torch.tensor([[1.0], [2.0]])
    t = torch.linspace(0, 1, 11).repeat(2, 1)
    solution = solver(lambda t, y: -y).solve(to.InitialValueProblem(y0=start, t_eval=t))
    assert torch.allclose(solution.ys[..., 0], start * torch.exp(-t), atol=1e-2)


def test_gradients():
    rate = torch.tensor(0.5, requires_grad=True)
    t = torch.linspace(0, 1, 5).repeat(1, 1)
    solution = solver(lambda t, y: -rate * y).solve(to.InitialValueProblem(y0=torch.ones(1, 1), t_eval=t))
    solution.ys[0, -1, 0].backward()
    assert abs(rate.grad.item() + torch.exp(torch.tensor(-0.5)).item()) < 1e-2
