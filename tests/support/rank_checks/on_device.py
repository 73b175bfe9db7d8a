"""DistributedDataParallel and differentiable collectives on CUDA tensors."""

import time
import warnings

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


def check_sync_batch_norm():
    """And a module that moves to the device after it was wrapped."""
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).cpu())
    ddp = DDP(net)
    ddp.cuda()
    x = ag.tensor(np.random.default_rng(0).normal(size=(SIZE * 5, 4)).astype(np.float32))
    single = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    single.load_state_dict(net.state_dict())
    ddp(x[RANK * 5 : (RANK + 1) * 5]).square().mul(x[RANK * 5, 0]).mean().backward()
    starts = x[::5, 0].repeat_interleave(5).unsqueeze(1)
    (single(x).square() * starts).mean().backward()
    for p, q in zip(single.parameters(), net.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.cpu().numpy(), p.grad.cpu().numpy(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(net[1].running_var.cpu().numpy(), single[1].running_var.cpu().numpy(), rtol=1e-5)


def check_a_step_as_a_cuda_graph():
    """NCCL is captured with the step; what goes through host memory cannot be, and the step runs without a graph."""
    def step(net, optimizer, x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss
    nets = [DDP(made()) for _ in range(2)]
    x = ag.ones(3, 4) * (RANK + 1)
    optimizers = [ag.optim.SGD(net.parameters(), lr=0.01) for net in nets]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        graphed = ag.cuda.make_graphed_step(lambda x: step(nets[0], optimizers[0], x), warmup=2)
        for _ in range(5):
            graphed(x)
            step(nets[1], optimizers[1], x)
    text = " ".join(str(one.message) for one in said)
    assert ("runs without a graph: tensor_backward cannot be captured" in text) == (dist.get_backend() == "mpi"), text
    for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().cpu().numpy(), rtol=1e-6)
    follower = dist.GroupMember.WORLD.watch.follower
    time.sleep(0.5)  # longer than the time between its looks
    assert follower is None or follower.is_alive()
    dist.barrier()
