"""entmax: sparse alternatives of softmax and their losses."""

import pytest
import torch
from entmax import Entmax15Loss, entmax15, entmax_bisect, sparsemax


@pytest.mark.parametrize("mapping", [sparsemax, entmax15, lambda x, dim: entmax_bisect(x, 1.3, dim=dim)])
def test_mappings_are_differentiable(mapping):
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(mapping(x, dim=-1).sum(-1), torch.ones(4, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda x: mapping(x, dim=-1), (x,), eps=1e-6, atol=1e-4)


def test_bisection_agrees_with_the_exact_mapping():
    x = torch.randn(5, 8, dtype=torch.float64)
    assert torch.allclose(entmax_bisect(x, 1.5, dim=-1), entmax15(x, dim=-1), atol=1e-5)


def test_training():
    torch.manual_seed(0)
    net, loss_of = torch.nn.Linear(5, 3), Entmax15Loss()
    x, target = torch.randn(64, 5), torch.randint(0, 3, (64,))
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.05), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = loss_of(net(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
