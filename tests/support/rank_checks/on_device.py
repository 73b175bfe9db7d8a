"""DistributedDataParallel and differentiable collectives on CUDA tensors."""

import numpy as np

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import nn
from autograd_gpu.distributed.algorithms.ddp_comm_hooks import default_hooks
from autograd_gpu.distributed.nn import functional as F
from autograd_gpu.nn.parallel import DistributedDataParallel as DDP

RANK, SIZE = dist.get_rank(), dist.get_world_size()


def trained(net, x):
    optimizer = ag.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().cpu().numpy() for p in net.parameters()]


def made():
    ag.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 30), nn.Tanh(), nn.Linear(30, 1))


def check_data_parallel():
    assert ag.zeros(1).is_cuda
    x = ag.tensor(np.random.default_rng(0).normal(size=(SIZE * 5, 4)).astype(np.float32))
    mine = x[RANK * 5 : (RANK + 1) * 5]
    device = ag.cuda.current_device()
    expected = trained(made(), x)
    for hook, tolerance in ((None, 1e-5), (default_hooks.bf16_compress_hook, 2e-2)):
        net = DDP(made(), device_ids=[device], bucket_cap_mb=0.0002)
        assert len(net.reducer.buckets) > 1
        if hook is not None:
            net.register_comm_hook(None, hook)
        for actual, exact in zip(trained(net, mine.cpu()), expected, strict=True):  # inputs are moved to the device
            np.testing.assert_allclose(actual, exact, rtol=tolerance, atol=tolerance)


def check_gradients_of_collectives():
    x = ag.tensor([float(RANK + 1)], requires_grad=True)
    (g,) = ag.autograd.grad(F.all_reduce(x * x).square(), x, create_graph=True)
    total = sum((rank + 1) ** 2 for rank in range(SIZE))
    assert g.item() == 2 * SIZE * total * 2 * (RANK + 1)
