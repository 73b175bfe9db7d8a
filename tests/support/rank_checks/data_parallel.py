"""DistributedDataParallel against one process that computes with the data of all ranks.

Each rank has BATCH examples. Losses are means, so the average of the gradients is the gradient for all examples.
"""

import copy
import gc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import nn
from autograd_gpu.distributed.algorithms.ddp_comm_hooks import default_hooks
from autograd_gpu.nn.parallel import DistributedDataParallel as DDP

RANK, SIZE = dist.get_rank(), dist.get_world_size()
BATCH = 6


def batches(steps, *shape):
    """The examples of all ranks, for each step."""
    rng = np.random.default_rng(11)
    return [ag.tensor(rng.normal(size=(SIZE * BATCH, *shape))) for _ in range(steps)]


def mine(x):
    return x[RANK * BATCH : (RANK + 1) * BATCH]


def net_of(make):
    """The same float64 network on every rank."""
    ag.manual_seed(3)
    return make().double()


def mlp():
    return nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 1))


def square(net, x):
    return net(x).square().mean()


def trained(net, xs, loss=square, steps=lambda i: True, lr=0.05):
    optimizer = ag.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for i, x in enumerate(xs):
        loss(net, x).backward()
        if steps(i):
            optimizer.step()
            optimizer.zero_grad()
    return net


def close(ddp, single, rtol=1e-9):
    for (name, a), b in zip(single.named_parameters(), ddp.module.parameters(), strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=rtol, atol=1e-12, err_msg=name)


def equal_on_all_ranks(net):
    for p in net.parameters():
        every = [ag.zeros_like(p) for _ in range(SIZE)]
        dist.all_gather(every, p.detach())
        assert all((other == every[0]).all() for other in every)


def agrees(make, loss=square, shape=(4,), **options):
    """Trains in both ways, with many small buckets and with one, and compares the parameters."""
    xs = batches(4, *shape)
    single = trained(net_of(make), xs, loss)
    for cap in (0.002, 25):
        ddp = trained(DDP(net_of(make), bucket_cap_mb=cap, **options), [mine(x) for x in xs], loss)
        close(ddp, single)
        equal_on_all_ranks(ddp)
    return ddp


def check_mlp():
    net = agrees(mlp)
    views = [p.grad for p in net.parameters()]
    assert all(view is None for view in views)  # zero_grad
    square(net, mine(batches(1, 4)[0])).backward()
    buffer = net.reducer.buckets[0].buffer.array
    assert len(net.reducer.buckets) == 1
    assert all(np.shares_memory(p.grad.array, buffer) for p in net.parameters())


def check_runs_are_equal_bit_for_bit():
    xs = [mine(x) for x in batches(3, 4)]
    first, second = (trained(DDP(net_of(mlp), bucket_cap_mb=0.002), xs) for _ in range(2))
    assert len(first.reducer.buckets) > 2
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def check_the_model_of_rank_0_goes_to_all():
    ag.manual_seed(RANK)
    net = DDP(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    equal_on_all_ranks(net)
    net.module[1].running_mean.fill_(RANK + 1.0)
    net(ag.ones(2, 3))
    assert (net.module[1].running_mean != RANK + 1.0).all() or RANK == 0
    with pytest.raises(ValueError, match="models of the ranks differ"):
        DDP(nn.Linear(3, 2 + (RANK == 1)))


def check_batch_norm():
    """Statistics are those of each rank's examples; running ones come from rank 0."""
    xs, ddp = batches(3, 4), DDP(net_of(lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))))
    single = copy.deepcopy(ddp.module)
    others = [copy.deepcopy(single) for _ in range(SIZE)]
    trained(ddp, [mine(x) for x in xs])
    optimizer = ag.optim.SGD(single.parameters(), lr=0.05, momentum=0.9)
    for x in xs:
        losses = []
        for rank, net in enumerate(others):  # equal parameters, and buffers of rank 0
            for name, p in single.named_parameters():
                net.get_parameter(name).data = p.data
            net.load_state_dict({**net.state_dict(), **{k: v.clone() for k, v in others[0].state_dict().items()}})
            losses.append(square(net, x[rank * BATCH : (rank + 1) * BATCH]))
        gs = [ag.autograd.grad(loss, list(net.parameters())) for loss, net in zip(losses, others, strict=True)]
        for p, *parts in zip(single.parameters(), *gs, strict=True):
            p.grad = sum(parts) / SIZE
        optimizer.step()
    close(ddp, single)
    if RANK == 0:
        np.testing.assert_allclose(ddp.module[1].running_mean.numpy(), others[0][1].running_mean.numpy(), rtol=1e-9)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 10, batch_first=True), nn.Linear(10, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def check_lstm():
    agrees(Recurrent, shape=(5, 4))


def residual(net, x):
    """A loss with second derivatives by the inputs, whose gradient differentiates twice."""
    x = x.clone().requires_grad_()
    u = net(x)
    (du,) = ag.autograd.grad(u.sum(), x, create_graph=True)
    (ddu,) = ag.autograd.grad(du[:, 0].sum(), x, create_graph=True)
    boundary = net(x.detach() * 0 + 1)  # a second forward in the same step
    return (ddu[:, 0] + u[:, 0].sin()).square().mean() + boundary.square().mean()


def check_pinn_with_double_backward():
    agrees(lambda: nn.Sequential(nn.Linear(4, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)), residual)


class Branches(nn.Module):
    """Uses one of two layers, and never the third."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 3) for _ in range(3))
        self.head = nn.Linear(3, 1)

    def forward(self, x, which=0):
        return self.head(self.layers[which](x))


def check_unused_parameters():
    x = batches(1, 4)[0]
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        ddp = DDP(net_of(Branches), bucket_cap_mb=0.0001, **options)
        single = net_of(Branches)
        for step in range(3):
            for net, data in ((ddp, mine(x)), (single, x)):
                net.zero_grad(set_to_none=step != 1)
                square(net, data).backward()
            for (name, a), b in zip(single.named_parameters(), ddp.module.parameters(), strict=True):
                assert (a.grad is None) == (b.grad is None), (options, step, name)
                if a.grad is not None:
                    np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-9)
    # each rank uses another layer
    ddp = DDP(net_of(Branches), find_unused_parameters=True)
    ddp(mine(x), RANK % 2).square().mean().backward()
    single = net_of(Branches)
    parts = [single(x[r * BATCH : (r + 1) * BATCH], r % 2).square().mean() for r in range(SIZE)]
    (sum(parts) / SIZE).backward()
    for (name, a), b in zip(single.named_parameters(), ddp.module.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-9)
    # without the option the next forward says what is missing
    ddp = DDP(net_of(Branches))
    square(ddp, mine(x)).backward()
    with pytest.raises(RuntimeError, match=r"no gradient to layers\.1\.weight, .*find_unused_parameters"):
        ddp(mine(x))


def check_accumulation():
    xs = batches(6, 4)
    single = trained(net_of(mlp), xs, steps=lambda i: i % 3 == 2)
    ddp = DDP(net_of(mlp), bucket_cap_mb=0.002)
    optimizer = ag.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    engine = dist.GroupMember.WORLD.engine
    for i, x in enumerate(xs):
        before = engine.calls
        if i % 3 < 2:
            with ddp.no_sync():
                square(ddp, mine(x)).backward()
            assert engine.calls == before
        else:
            square(ddp, mine(x)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=i < 3)
    close(ddp, single)
    # without no_sync each backward is averaged, and the sum is the same
    twice = trained(DDP(net_of(mlp)), [mine(x) for x in xs], steps=lambda i: i % 3 == 2)
    close(twice, single)


def check_communication_hooks():
    x = batches(1, 4)[0]
    exact = DDP(net_of(mlp).float())
    square(exact, mine(x).float()).backward()
    tolerances = [
        (default_hooks.allreduce_hook, None, 1e-6), (default_hooks.fp16_compress_hook, None, 2e-3),
        (default_hooks.bf16_compress_hook, None, 2e-2),
        (default_hooks.fp8_compress_hook, default_hooks.FP8State(), 0.2),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), None, 2e-2),
    ]  # fmt: skip
    for hook, state, tolerance in tolerances:
        net = DDP(net_of(mlp).float(), bucket_cap_mb=0.002)
        net.register_comm_hook(state, hook)
        square(net, mine(x).float()).backward()
        for a, b in zip(exact.parameters(), net.parameters(), strict=True):
            error = (a.grad - b.grad).norm() / a.grad.norm()
            assert error < tolerance, (hook, error)
        equal = [ag.zeros_like(b.grad) for _ in range(SIZE)]
        dist.all_gather(equal, b.grad)
        assert all((other == b.grad).all() for other in equal)


def check_fp8_feeds_errors_back():
    """The mean of many reductions of one gradient comes close to it, since what one leaves out goes into the next."""
    values = ag.tensor(np.random.default_rng(RANK).normal(size=3000).astype(np.float32))
    exact = values.clone()
    dist.all_reduce(exact, dist.ReduceOp.AVG)
    state, total, first = default_hooks.FP8State(), ag.zeros(3000), None
    for _ in range(50):
        buffer = values.clone()
        bucket = dist.GradBucket(0, True, buffer, [buffer], [buffer])
        total += default_hooks.fp8_compress_hook(state, bucket).wait()
        first = total.clone() if first is None else first
    assert (first - exact).norm() > 20 * (total / 50 - exact).norm()


def check_uneven_inputs():
    counts = [2 + rank % 3 for rank in range(SIZE)]
    rng = np.random.default_rng(1)
    data = [[ag.tensor(rng.normal(size=(BATCH, 4))) for _ in range(n)] for n in counts]
    for by_all in (True, False):
        ddp, single = DDP(net_of(mlp), bucket_cap_mb=0.002), net_of(mlp)
        for _ in range(2):  # epochs
            with ddp.join(divide_by_initial_world_size=by_all):
                trained(ddp, data[RANK])
            optimizer = ag.optim.SGD(single.parameters(), lr=0.05, momentum=0.9)
            for i in range(max(counts)):
                parts = [square(single, xs[i]) for xs in data if len(xs) > i]
                (sum(parts) / (SIZE if by_all else len(parts))).backward()
                optimizer.step()
                optimizer.zero_grad()
        close(ddp, single)
        equal_on_all_ranks(ddp)
    net = DDP(net_of(Branches), find_unused_parameters=True)
    with net.join():
        trained(net, data[RANK])
    equal_on_all_ranks(net)
    if len(set(counts)) > 1:
        with pytest.raises(RuntimeError, match="exhausted"), net.join(throw_on_early_termination=True):
            trained(net, data[RANK])


def check_mistakes_are_named():
    net, x = DDP(net_of(mlp)), mine(batches(1, 4)[0])
    loss = square(net, x)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="create_graph"):
        square(net, x).backward(create_graph=True)
    net = DDP(net_of(mlp))
    with pytest.raises(RuntimeError, match="parameters that require a gradient"):
        DDP(nn.Tanh())
    with pytest.raises(ValueError, match="GPU modules"):
        DDP(net_of(mlp), device_ids=[0])
    net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    with pytest.raises(RuntimeError, match="once"):
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)


def check_a_model_is_released():
    net = DDP(net_of(mlp))
    square(net, mine(batches(1, 4)[0])).backward()
    gone = weakref.ref(net), weakref.ref(net.reducer), weakref.ref(net.module[0].weight)
    gc.collect()
    gc.disable()
    try:
        del net
        assert [ref() for ref in gone] == [None, None, None]
    finally:
        gc.enable()
