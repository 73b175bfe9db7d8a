"""Derivatives and optimizers that the ranks share, on CUDA tensors."""

import numpy as np

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import func, nn, optim

WORLD, SIZE = dist.GroupMember.WORLD, dist.get_world_size()


def network():
    ag.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def values(*shape):
    return ag.tensor(np.random.default_rng(0).normal(size=shape))


def close(mine, expected):
    assert mine.is_cuda
    np.testing.assert_allclose(mine.detach().cpu().numpy(), expected.detach().cpu().numpy(), rtol=1e-9, atol=1e-11)


def energy(x):
    return ((x[1:] - x[:-1] ** 2) ** 2).sum()


def check_derivatives():
    net, x, z = network(), values(2 * SIZE + 1, 3), values(5)
    for make in (func.hessian, func.laplacian):
        close(func.vmap(make(net), group=WORLD)(x), func.vmap(make(net))(x))
    for method in ("push", "nested"):
        close(func.hessian(energy, method=method, group=WORLD)(z), func.hessian(energy)(z))
        close(func.hessian_diagonal(energy, method=method, group=WORLD)(z), func.hessian_diagonal(energy)(z))
    close(func.hvp(energy, (z,), (z,), group=WORLD), SIZE * func.hvp(energy, (z,), (z,)))


def check_optimizer():
    nets = network(), network()
    sharded = optim.ZeroRedundancyOptimizer(nets[0].parameters(), optim.Adam, lr=0.1)
    plain = optim.Adam(nets[1].parameters(), lr=0.1)
    for net, optimizer in zip(nets, (sharded, plain), strict=True):
        for _ in range(3):
            optimizer.zero_grad()
            (net(values(4, 3)) ** 2).sum().backward()
            optimizer.step()
    for mine, expected in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        close(mine, expected)
    sharded.consolidate_state_dict()
    if dist.get_rank() == 0:
        state = sharded.state_dict()["state"][0]["exp_avg"]
        assert not state.is_cuda
        np.testing.assert_allclose(state.numpy(), plain.state_dict()["state"][0]["exp_avg"].cpu().numpy(), rtol=1e-9)
