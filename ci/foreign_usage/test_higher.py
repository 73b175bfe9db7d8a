"""higher: gradients through the steps of an optimizer."""

import higher
import pytest
import torch


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
def test_gradients_through_steps(kind):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    with higher.innerloop_ctx(net, kind(net.parameters(), lr=0.1)) as (fast, differentiable):
        for _ in range(3):
            differentiable.step(((fast(x) - y) ** 2).mean())
        grads = torch.autograd.grad(((fast(x) - y) ** 2).mean(), list(fast.parameters(time=0)))
    assert all(torch.isfinite(g).all() and g.abs().sum() > 0 for g in grads)


def test_patched_module_is_a_function_of_its_parameters():
    net = torch.nn.Linear(3, 2)
    fast = higher.patch.monkeypatch(net)
    doubled = [2 * p for p in net.parameters()]
    x = torch.randn(4, 3)
    assert torch.allclose(fast(x, params=doubled), 2 * net(x))
