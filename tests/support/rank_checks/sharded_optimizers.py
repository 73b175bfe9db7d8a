"""ZeroRedundancyOptimizer on every rank, against the plain optimizer, whose bits it has to have."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import nn, optim
from autograd_gpu.distributed.algorithms.join import Join
from autograd_gpu.optim import ZeroRedundancyOptimizer

RANK, SIZE = dist.get_rank(), dist.get_world_size()
CLASSES = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}), (optim.Adam, {"lr": 0.01}), (optim.AdamW, {"lr": 0.01, "amsgrad": True}),
    (optim.Adagrad, {}), (optim.RMSprop, {"momentum": 0.5}), (optim.Rprop, {}),
]  # fmt: skip


def network(dtype=ag.float32):
    ag.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def groups(net):
    first, *others = list(net.parameters())
    return [{"params": [first], "lr": 0.05}, {"params": others, "weight_decay": 0.01}]


def inputs(step):
    return ag.tensor(np.random.default_rng(step).normal(size=(7, 3)).astype(np.float32))


def steps(net, optimizer, numbers):
    """Equal gradients on all ranks, as DistributedDataParallel makes them; one parameter has none in some steps."""
    for number in numbers:
        optimizer.zero_grad()
        (net(inputs(number).to(net[0].weight.dtype)) ** 2).sum().backward()
        if number % 3 == 1:
            net[2].bias.grad = None
        optimizer.step()


def same(net, expected):
    for mine, theirs in zip(net.parameters(), expected.parameters(), strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())


def same_state(mine, theirs):
    assert mine["param_groups"] == theirs["param_groups"]
    assert list(mine["state"]) == list(theirs["state"])
    for index, state in theirs["state"].items():
        assert list(mine["state"][index]) == list(state)
        for name, value in state.items():
            own = mine["state"][index][name]
            assert isinstance(value, ag.Tensor) is isinstance(own, ag.Tensor)
            np.testing.assert_array_equal(np.asarray(own), np.asarray(value))


def check_steps_have_the_bits_of_the_plain_optimizer():
    for cls, options in CLASSES:
        for views in (False, True):
            net, plain = network(), network()
            sharded = ZeroRedundancyOptimizer(groups(net), cls, parameters_as_bucket_view=views, **options)
            reference = cls(groups(plain), **options)
            steps(net, sharded, range(4))
            steps(plain, reference, range(4))
            same(net, plain)
            own, every = len(sharded.state), len(reference.state)
            assert 0 < own < every


def check_elements_are_spread_evenly():
    net = nn.Sequential(*[nn.Linear(10, 10) for _ in range(2 * SIZE)])
    optimizer = ZeroRedundancyOptimizer(net.parameters(), optim.SGD, lr=0.1)
    own = sum(p.numel() for group in optimizer.optim.param_groups for p in group["params"])
    assert own == sum(p.numel() for p in net.parameters()) / SIZE
    before = dist.GroupMember.WORLD.engine.sent
    net(ag.ones(1, 10)).sum().backward()
    optimizer.step()
    assert dist.GroupMember.WORLD.engine.sent - before == (SIZE - 1) * own * 4


def check_options_set_between_steps_hold():
    net, plain = network(), network()
    sharded = ZeroRedundancyOptimizer(net.parameters(), optim.Adam, lr=0.1)
    reference = optim.Adam(plain.parameters(), lr=0.1)
    schedules = [optim.lr_scheduler.ExponentialLR(one, 0.5) for one in (sharded, reference)]
    for number in range(3):
        steps(net, sharded, [number])
        steps(plain, reference, [number])
        for schedule in schedules:
            schedule.step()
    same(net, plain)
    assert sharded.param_groups[0]["lr"] == reference.param_groups[0]["lr"] == 0.0125
    assert sharded.defaults == reference.defaults


def check_state_dicts_are_those_of_the_plain_optimizer():
    net, plain = network(), network()
    sharded, reference = ZeroRedundancyOptimizer(groups(net), optim.AdamW), optim.AdamW(groups(plain))
    steps(net, sharded, range(3))
    steps(plain, reference, range(3))
    with pytest.raises(RuntimeError, match=r"consolidate_state_dict\(to="):
        sharded.state_dict()
    sharded.consolidate_state_dict(to=SIZE - 1)
    saved = [None]
    if RANK == SIZE - 1:
        same_state(sharded.state_dict(), reference.state_dict())
        saved = [sharded.state_dict()]
    else:
        with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
            sharded.state_dict()
    dist.broadcast_object_list(saved, src=SIZE - 1)
    resumed = ZeroRedundancyOptimizer(groups(net), optim.AdamW, lr=7.0)
    resumed.load_state_dict(saved[0])
    assert [group["lr"] for group in resumed.param_groups] == [group["lr"] for group in reference.param_groups]
    steps(net, resumed, range(3, 6))
    steps(plain, reference, range(3, 6))
    same(net, plain)
    sharded.consolidate_state_dict()
    sharded.step()
    with pytest.raises(RuntimeError, match="has not been consolidated"):  # of the step before
        sharded.state_dict()
    with pytest.raises(ValueError, match="different number of parameter groups"):
        resumed.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(TypeError, match="consolidate_state_dict"):
        resumed.__reduce_ex__(2)


def check_groups_and_dtypes():
    net, plain = network(), network()
    for one in (net, plain):
        one[4].to(ag.float64)
    def trained(one, optimizer):
        for number in range(3):
            optimizer.zero_grad()
            (one[4](one[:4](inputs(number)).double()) ** 2).sum().backward()
            optimizer.step()
        return one
    sharded = ZeroRedundancyOptimizer(net[:2].parameters(), optim.Adam, lr=0.1)
    sharded.add_param_group({"params": list(net[2:].parameters()), "lr": 0.01})
    last = {"params": list(plain[2:].parameters()), "lr": 0.01}
    reference = optim.Adam([{"params": list(plain[:2].parameters())}, last], lr=0.1)
    same(trained(net, sharded), trained(plain, reference))
    w = ag.ones(2, requires_grad=True)
    alone = ZeroRedundancyOptimizer([w], optim.SGD, lr=0.5)  # more ranks than parameters
    loss = alone.step(lambda: [alone.zero_grad(), (w * w).sum().backward(), 4.0][2])
    assert (loss, w.tolist()) == (4.0, [0.0, 0.0])


def check_data_parallel_training_with_uneven_inputs():
    """Beside the plain optimizer, with DistributedDataParallel and a rank that has fewer batches."""
    nets = []
    for make in (lambda p: ZeroRedundancyOptimizer(p, optim.Adam, lr=0.01), lambda p: optim.Adam(p, lr=0.01)):
        net = nn.parallel.DistributedDataParallel(network())
        optimizer = make(net.parameters())
        joinables = [net, optimizer] if isinstance(optimizer, ZeroRedundancyOptimizer) else [net]
        with Join(joinables):
            for number in range(3 - (RANK == 0)):
                optimizer.zero_grad()
                (net(inputs(10 * number + RANK)) ** 2).mean().backward()
                optimizer.step()
        nets.append(net.module)
    if RANK:  # a plain optimizer does not step on the rank that ended early
        same(*nets)


def check_what_cannot_be_spread_is_refused():
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="LBFGS computes with all parameters at once"):
        ZeroRedundancyOptimizer([w], optim.LBFGS)
    with pytest.raises(ValueError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([w], optim.SGD, overlap_with_ddp=True)
    low = dist.new_group([0])
    if RANK:
        with pytest.raises(ValueError, match="not in process_group"):
            ZeroRedundancyOptimizer([w], optim.SGD, process_group=low)
    else:
        assert ZeroRedundancyOptimizer([w], optim.SGD, process_group=low).world_size == 1
