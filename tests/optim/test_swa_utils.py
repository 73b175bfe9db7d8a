"""Averaged models and the statistics of batch norms; SWALR is in test_lr_scheduler.py."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.optim import swa_utils


class BatchNorm1d(nn.Module):
    """What update_bn looks at, counting its calls."""

    def __init__(self, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.seen = []

    def reset_running_stats(self):
        self.seen.append("reset")

    def forward(self, x):
        self.seen.append((self.momentum, self.training, ag.is_grad_enabled(), float(x.sum())))
        return x


def models(count, device):
    """One model with weights that change, as a function of the step."""
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double().to(device)
    net.register_buffer("seen", ag.zeros((), dtype=ag.int64, device=device))
    rng = np.random.default_rng(0)
    values = [[rng.standard_normal(p.shape) for p in net.parameters()] for _ in range(count)]
    return net, values


def averaged_over(net, values, average):
    for step, values_so_far in enumerate(values):
        with ag.no_grad():
            for p, value in zip(net.parameters(), values_so_far, strict=True):
                p.copy_(ag.tensor(value, device=p.device))
            net.seen += 10
        average.update_parameters(net)
        assert int(average.n_averaged) == step + 1
    return [p.numpy(force=True) for p in average.module.parameters()]


def swa(values):
    return [np.mean(value, axis=0) for value in zip(*values, strict=True)]


def ema(values, decay):
    result = values[0]
    for value in values[1:]:
        result = [decay * a + (1 - decay) * p for a, p in zip(result, value, strict=True)]
    return result


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, swa),
        ({"avg_fn": swa_utils.get_swa_avg_fn()}, swa),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, swa),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.8)}, lambda values: ema(values, 0.8)),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8)}, lambda values: ema(values, 0.8)),
        ({"avg_fn": lambda averaged, current, n: ag.maximum(averaged, current)}, lambda v: list(map(np.maximum, *v))),
    ],
)
def test_average(options, expected, device):
    net, values = models(2 if "lambda" in str(options.get("avg_fn")) else 5, device)
    average = swa_utils.AveragedModel(net, **options)
    got = averaged_over(net, values, average)
    for a, b in zip(got, expected(values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert int(average.module.seen) == int(net.seen)
    x = ag.ones(4, 3, dtype=ag.float64, device=device)
    np.testing.assert_array_equal(average(x).numpy(force=True), average.module(x).numpy(force=True))


@pytest.mark.parametrize("ema", [False, True])
def test_average_equals_pytorchs(ema):
    torch = pytest.importorskip("torch")
    net, values = models(4, "cpu")
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)).double()
    theirs = torch.optim.swa_utils
    average = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.7) if ema else None)
    reference = theirs.AveragedModel(other, multi_avg_fn=theirs.get_ema_multi_avg_fn(0.7) if ema else None)
    averaged_over(net, values, average)
    for values_so_far in values:
        with torch.no_grad():
            for p, value in zip(other.parameters(), values_so_far, strict=True):
                p.copy_(torch.tensor(value))
        reference.update_parameters(other)
    for a, b in zip(average.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.detach().numpy(), rtol=1e-12)
    assert average.state_dict().keys() == reference.state_dict().keys() | {"module.seen"}


def test_buffers_are_averaged_if_asked(device):
    net, values = models(3, device)
    average = swa_utils.AveragedModel(net, use_buffers=True)
    averaged_over(net, values, average)
    assert int(average.module.seen) == 20  # of 10, 20, 30


def test_the_average_is_a_model_of_its_own(device):
    net, values = models(1, device)
    average = swa_utils.AveragedModel(net, device="cpu")
    version = average.module[0].weight._version
    averaged_over(net, values, average)
    assert average.module[0].weight._version > version
    assert str(average.module[0].weight.device) == "cpu"
    with ag.no_grad():
        net[0].weight.zero_()
    assert average.module[0].weight.abs().sum().item() > 0


def test_update_bn():
    norm, other = BatchNorm1d(), BatchNorm1d(momentum=0.3)
    net = nn.Sequential(norm, other).eval()
    swa_utils.update_bn([ag.ones(2, 3), (ag.ones(1, 3), "a label")], net)
    assert norm.seen == other.seen == ["reset", (None, True, False, 6.0), (None, True, False, 3.0)]
    assert (norm.momentum, other.momentum, net.training) == (0.1, 0.3, False)
    swa_utils.update_bn(iter(lambda: pytest.fail("nothing to update, nothing to run"), 0), nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="no batch"):
        swa_utils.update_bn(_broken(), net)
    assert (norm.momentum, other.momentum, net.training) == (0.1, 0.3, False)


def _broken():
    yield ag.ones(2, 3)
    raise RuntimeError("no batch")


def test_errors():
    net = nn.Linear(3, 2)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa_utils.AveragedModel(net, avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    average = swa_utils.AveragedModel(net)
    with pytest.raises(ValueError, match="has 2 parameters and 0 buffers, the model to average in 1 and 0"):
        average.update_parameters(nn.Linear(3, 2, bias=False))
    with pytest.raises(RuntimeError, match=r"has a tensor of shape \(2, 3\), the model one of \(2, 4\)"):
        average.update_parameters(nn.Linear(4, 2))
    assert int(average.n_averaged) == 0
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
            make(1.5)


AVERAGES = {
    "a mean": dict,
    "an exponential one": lambda: {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    "a function": lambda: {"avg_fn": swa_utils.get_swa_avg_fn()},
    "a user's": lambda: {"avg_fn": lambda a, p, n: ag.where(n > 3, ag.maximum(a, p), 0.5 * (a + p))},
    "a user's in place": lambda: {"multi_avg_fn": lambda a, p, n: ag._foreach_lerp_(a, p, 0.25)},
}


@pytest.mark.cuda
@pytest.mark.parametrize("counter", ["cpu", "cuda"])
@pytest.mark.parametrize("name", AVERAGES)
def test_replays_average(name, counter, device):
    """Also the first, which copies; and after a state dict was loaded, whose counter is another."""
    outcomes = []
    for graphed in (True, False):
        ag.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).to("cuda")
        average = swa_utils.AveragedModel(net, **AVERAGES[name]())
        average.n_averaged = average.n_averaged.to(counter)
        optimizer = ag.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, net=net, average=average, optimizer=optimizer):
            optimizer.zero_grad()
            (net(x) ** 2).mean().backward()
            optimizer.step()
            average.update_parameters(net)

        run, fresh, seen = ag.cuda.make_graphed_step(step) if graphed else step, average.state_dict(), []
        fresh = {key: value.clone() for key, value in fresh.items()}
        for i in range(23):
            if i == 10:
                average.load_state_dict(fresh)
            run(ag.randn(6, 3, device="cuda"))
            seen.append(int(average.n_averaged))
        assert not graphed or run.graphs == 1
        assert seen == [*range(1, 11), *range(1, 14)]
        outcomes.append([value.numpy(force=True) for value in average.state_dict().values()])
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.cuda
def test_weights_on_the_cpu_are_not_averaged_in_a_graph(device):
    net = nn.Linear(2, 1).cpu()
    average = swa_utils.AveragedModel(net)
    refused = pytest.raises(RuntimeError, match=r"on CUDA only, .*: call update_parameters\(\) after the replay")
    with refused, ag.cuda.graph(ag.cuda.CUDAGraph()):
        average.update_parameters(net)
    assert int(average.n_averaged) == 0
