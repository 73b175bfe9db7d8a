"""What programs do with a module after DistributedDataParallel has wrapped it, and SyncBatchNorm inside of it."""

import copy
import dataclasses
import io
import pickle

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import missing_names, nn
from autograd_gpu.distributed.algorithms.ddp_comm_hooks import default_hooks
from autograd_gpu.nn.parallel import DistributedDataParallel as DDP

RANK, SIZE = dist.get_rank(), dist.get_world_size()
MEAN = (SIZE + 1) / 2  # of RANK + 1
X = ag.ones(3, 2) * (RANK + 1)  # the gradient of the sum of a linear layer is 3 * (RANK + 1), on the average 3 * MEAN


def linear():
    ag.manual_seed(0)
    return nn.Linear(2, 1)


def averaged(net, times=1.0, x=X):
    net(x).sum().backward()
    np.testing.assert_array_equal(net.module.weight.grad.numpy(), np.full((1, 2), 3 * MEAN * times))


def check_copies_average_their_own_gradients():
    net = DDP(linear())
    averaged(net)
    file = io.BytesIO()
    ag.save(net, file)
    file.seek(0)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), ag.load(file, weights_only=False)):
        other.zero_grad()
        averaged(other)
        assert other.module.weight is not net.module.weight
    averaged(net, 2)
    ema = ag.optim.swa_utils.AveragedModel(net)
    ema.update_parameters(net)
    assert list(ema.state_dict()) == ["n_averaged", "module.module.weight", "module.module.bias"]
    net = DDP(linear())
    net.register_comm_hook(None, default_hooks.bf16_compress_hook)
    assert copy.deepcopy(net).reducer.comm_hook is not None
    group = dist.new_group(range(SIZE))
    with pytest.raises(RuntimeError, match="only supported when using DDP with the default process group"):
        copy.deepcopy(DDP(linear(), process_group=group))


def check_converted_modules():
    """With gradients, which are views of buckets, and without; by either module."""
    for keep in (True, False):
        for convert in (lambda net: net.double(), lambda net: net.module.double()):
            net = DDP(linear())
            averaged(net)
            if not keep:
                net.zero_grad()
            convert(net)
            assert net.module.weight.dtype == ag.float64
            averaged(net, 1 + keep, X.double())
            assert net.module.weight.grad.dtype == ag.float64


def check_frozen_parameters():
    net = nn.Sequential(linear(), nn.Linear(1, 1))
    net[0].requires_grad_(False)
    ddp = DDP(net)
    ddp(X).sum().backward()
    assert net[0].weight.grad is None
    net[0].requires_grad_(True)
    with pytest.raises(RuntimeError, match=r"0\.weight did not require grad when the module was wrapped"):
        ddp(X)
    ddp = DDP(net, find_unused_parameters=True)
    net[0].requires_grad_(False)  # later: like a parameter that is not used
    ddp(X).sum().backward()
    assert net[0].weight.grad is None
    assert net[1].bias.grad.item() == 6  # added to the one before
    ddp = DDP(nn.Sequential(linear(), nn.Linear(1, 1)))
    ddp.module[0].requires_grad_(False)
    ddp(X).sum().backward()
    with pytest.raises(RuntimeError, match=r"no gradient to 0\.weight, 0\.bias"):
        ddp(X)


def check_a_backward_that_is_not_averaged_says_so():
    for second in (lambda net, loss: loss.backward(), lambda net, loss: net.module(X).sum().backward()):
        missing_names._WARNED.discard("gradients after those of a forward")
        net = DDP(linear())
        loss = net(X).sum()
        loss.backward(retain_graph=True)
        with pytest.warns(UserWarning, match="this one stays on its rank"):
            second(net, loss)
        assert net.module.weight.grad[0, 0].item() == 3 * MEAN + 3 * (RANK + 1)
    missing_names._WARNED.discard("gradients after those of a forward")
    with net.no_sync():
        loss = net(X).sum()
        loss.backward(retain_graph=True)
        loss.backward()  # meant so


@dataclasses.dataclass
class Output:
    value: ag.Tensor
    nothing: object = None


class Holder:
    def __init__(self, value):
        self.value = value


class Two(nn.Module):
    """Uses one layer of two; `make` makes the output."""

    def __init__(self, make):
        super().__init__()
        self.layers, self.make = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)]), make

    def forward(self, x, which=0):
        return self.make(self.layers[which](x))


def check_nested_outputs():
    outputs = [
        (lambda y: {"a": [y, None]}, lambda out: out["a"][0]), (Output, lambda out: out.value),
        (lambda y: [Output(y)], lambda out: out[0].value),
    ]  # fmt: skip
    for make, value in outputs:
        net = DDP(Two(make), find_unused_parameters=True)
        value(net(X)).sum().backward()
        assert net.module.layers[0].weight.grad[0, 0].item() == 3 * MEAN
        assert net.module.layers[1].weight.grad is None
    net = DDP(Two(Holder), find_unused_parameters=True)
    with pytest.raises(RuntimeError, match="searched in lists, tuples, dicts and dataclasses"):
        net(X).value.sum().backward()
    net = DDP(Two(lambda y: y), static_graph=True)
    net(X).sum().backward()
    with pytest.raises(RuntimeError, match="was not used in the first iteration of static_graph=True"):
        net(X, 1).sum().backward()


def check_parameters_of_many_kinds():
    """Shared, of several dtypes, not contiguous, without elements and of no dimension."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(2, 2).double(), nn.Linear(2, 2), nn.Linear(2, 1).half()
            self.b.weight = nn.Parameter(ag.ones(2, 2).t())
            self.again = nn.Linear(2, 2)
            self.again.weight = self.b.weight
            self.empty, self.scale = nn.Parameter(ag.zeros(0, 3)), nn.Parameter(ag.tensor(2.0))

        def forward(self, x):
            y = self.again(self.b(self.a(x.double()).float())) * self.scale
            return self.c(y.half()).float() + self.empty.sum()

    ag.manual_seed(1)
    net = DDP(Model(), bucket_cap_mb=1e-5)
    single = copy.deepcopy(net.module)
    net(X).sum().backward()
    (sum(single(ag.ones(3, 2) * (rank + 1)).sum() for rank in range(SIZE)) / SIZE).backward()
    for (name, p), q in zip(single.named_parameters(), net.module.parameters(), strict=True):
        assert p.grad.dtype == q.grad.dtype == p.dtype
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=2e-2 if p.dtype == ag.float16 else 1e-2,
                                   err_msg=name)  # fmt: skip


def check_state_dicts_have_a_prefix():
    net = DDP(linear())
    state = net.state_dict()
    assert list(state) == ["module.weight", "module.bias"]
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    linear().load_state_dict(state)
    assert list(state) == ["weight", "bias"]


class Raises(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ValueError("in backward")


def check_a_backward_that_raises():
    """On all ranks, when a part of the gradients is under way: the next forward says so, and a new wrapper goes on."""
    net = nn.Sequential(linear(), nn.Linear(1, 1))
    ddp = DDP(net, bucket_cap_mb=1e-6)
    handle = net[0].register_forward_hook(lambda module, args, out: Raises.apply(out))
    with pytest.raises(ValueError, match="in backward"):
        ddp(X).sum().backward()
    handle.remove()
    with pytest.raises(RuntimeError, match=r"If it raised, and on all ranks, wrap net\.module again"):
        ddp(X)
    ddp.zero_grad()
    again = DDP(net)
    del ddp
    again(X).sum().backward()
    every = [ag.zeros(1, 2) for _ in range(SIZE)]
    dist.all_gather(every, net[0].weight.grad)
    assert all((one == every[0]).all() for one in every)


def check_a_bucket_is_reduced_before_backward_computes_the_next():
    """By a count: when backward begins with layer i, the buckets of all layers above it have been begun."""
    engine, begun = dist.GroupMember.WORLD.engine, []
    layers = [nn.Linear(20, 20, bias=False) for _ in range(5)]
    net = DDP(nn.Sequential(*layers), bucket_cap_mb=20 * 20 * 4 / (1 << 20))
    assert len(net.reducer.buckets) == 5
    for layer in layers:
        layer.register_full_backward_pre_hook(lambda module, g: begun.append(engine.calls))
    for _ in range(3):
        begun.clear()
        net(ag.ones(3, 20, requires_grad=True)).sum().backward()
        assert [calls - begun[0] for calls in begun] == [0, 1, 2, 3, 4]
        assert engine.calls - begun[0] == 5


# ---- SyncBatchNorm -----------------------------------------------------------------------------


def part(x):
    """Rank 0 has one row more than the others."""
    return x[:6] if RANK == 0 else x[5 * RANK + 1 : 5 * RANK + 6]


def check_sync_batch_norm():
    """Results, first and second derivatives and running statistics, against one process with all rows."""
    rng = np.random.default_rng(0)
    for make, shape in ((nn.BatchNorm1d, ()), (nn.BatchNorm2d, (2, 3))):
        x, w = (ag.tensor(rng.normal(3, 2, size=(5 * SIZE + 1, 4, *shape))) for _ in range(2))
        norm = make(4, momentum=None if shape else 0.1).double()
        nn.init.uniform_(norm.weight)
        synced = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(copy.deepcopy(norm)))[0]
        for _ in range(2):
            whole, mine = x.clone().requires_grad_(), part(x).clone().requires_grad_()
            results = norm(whole), synced(mine)
            losses = [(result * weights).square().sum() for result, weights in zip(results, (w, part(w)), strict=True)]
            gs = [ag.autograd.grad(loss, point, create_graph=True)[0]
                  for loss, point in zip(losses, (whole, mine), strict=True)]
            for g in gs:
                (g ** 3).sum().backward()
            pairs = [(results[1], part(results[0])), (gs[1], part(gs[0])), (mine.grad, part(whole.grad)),
                     (synced.running_mean, norm.running_mean), (synced.running_var, norm.running_var)]
            for actual, expected in pairs:
                np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(synced.eval()(x).detach().numpy(), norm.eval()(x).detach().numpy(), rtol=1e-9)
    halves = nn.SyncBatchNorm(4).half()
    assert halves(ag.ones(3, 4).half()).dtype == ag.float16
    rows = ag.zeros(0, 4) if RANK else ag.tensor(rng.normal(size=(5, 4)).astype(np.float32))
    single, synced = nn.BatchNorm1d(4), nn.SyncBatchNorm(4)
    synced(rows.requires_grad_()).sum().backward()  # a rank without rows
    if RANK == 0:
        single(rows)
    dist.broadcast(single.running_var, 0)
    np.testing.assert_allclose(synced.running_var.numpy(), single.running_var.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="expected at least 2D input"):
        synced(ag.ones(4))
    with pytest.raises(ValueError, match="throw_on_early_termination"):
        DDP(synced).join()


def check_training_with_sync_batch_norm():
    """DistributedDataParallel's gradients are those of one process with the batches of all ranks."""
    ag.manual_seed(2)
    single = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)).double()
    net = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(single)), bucket_cap_mb=1e-5)
    x = ag.tensor(np.random.default_rng(3).normal(size=(4 * SIZE, 3)))
    for model, rows in ((single, x), (net, x[4 * RANK : 4 * RANK + 4])):
        optimizer = ag.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(rows) - rows.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
    for p, q in zip(single.parameters(), net.module.parameters(), strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-8, atol=1e-10)
