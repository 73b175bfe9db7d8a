"""Optimizer steps in a CUDA graph: replays are steps, with the numbers of their time."""


import math

import numpy as np
import pytest
from captures import Captured
from optim_cases import CASES, ONE_EACH, SMALL, gradients, make

import autograd_gpu as ag
from autograd_gpu import backend, optim

pytestmark = pytest.mark.cuda
STEPS = 8


def set_grads(params, step):
    for param, g in zip(params, gradients(step), strict=False):
        with ag.no_grad():
            param.grad.copy_(ag.tensor(g, dtype=param.dtype, device=param.device))


def start(cls, options, dtype=ag.float32):
    """Parameters after a step, and their optimizer."""
    extra = {"capturable": True} if "capturable" in made(cls).defaults else {}
    params, optimizer = make(cls, {**options, **extra}, "cuda", dtype, SMALL)
    for param in params:
        param.grad = ag.zeros_like(param)
    set_grads(params, 0)
    optimizer.step()
    return params, optimizer


def made(cls):
    return getattr(optim, cls)([ag.zeros(1, requires_grad=True)], lr=0.1)


def values(params, optimizer):
    states = [t for p in params for t in optimizer.state[p].values()]
    return [backend.to_numpy(t.detach().array) if isinstance(t, ag.Tensor) else t for t in [*params, *states]]


def compare(replayed, eager):
    for ours, theirs in zip(values(*replayed), values(*eager), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def change(optimizer, step):
    """A schedule, and options that change between the steps."""
    for group in optimizer.param_groups:
        group["lr"] = 0.05 / (1 + step)
        if "weight_decay" in group:
            group["weight_decay"] = (0.0, 0.1, 0.0, 0.02)[step % 4]
        if "betas" in group:
            group["betas"] = (0.8 + 0.01 * step, 0.9)
        group["maximize"] = step == 3


def both(replayed, eager, steps, captured, changes=change):
    """Replays, and eager steps, with the same gradients and options."""
    for step in steps:
        for params, optimizer in (replayed, eager):
            set_grads(params, step)
            changes(optimizer, step)
        captured.replay()
        eager[1].step()


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_replays_are_steps(cls, options):
    replayed, eager = start(cls, options), start(cls, options)
    before = values(*replayed)
    captured = Captured(replayed[1].step)
    for ours, theirs in zip(values(*replayed), before, strict=True):  # the capture has stepped nothing
        np.testing.assert_array_equal(ours, theirs)
    both(replayed, eager, range(STEPS), captured)
    compare(replayed, eager)


@pytest.mark.parametrize("dtype", [ag.float64, ag.float16])
@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_other_dtypes(cls, options, dtype):
    replayed, eager = start(cls, options, dtype), start(cls, options, dtype)
    both(replayed, eager, range(3), Captured(replayed[1].step))
    compare(replayed, eager)


def test_numbers_that_become_0_or_1_at_a_replay():
    replayed, eager = start("SGD", {"momentum": 0.9}), start("SGD", {"momentum": 0.9})

    def changes(optimizer, step):
        options = [{"nesterov": True}, {"lr": 1.0, "weight_decay": 0.5}, {"weight_decay": 0.0, "maximize": True}]
        optimizer.param_groups[0].update(options[step])

    both(replayed, eager, range(3), Captured(replayed[1].step), changes)
    compare(replayed, eager)


def test_without_foreach_a_captured_step_runs_by_lists():
    replayed, eager = start("RMSprop", {"foreach": False}), start("RMSprop", {"foreach": True})
    both(replayed, eager, range(3), Captured(replayed[1].step))
    compare(replayed, eager)


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_a_state_dict_is_loaded_between_replays(cls, options):
    replayed, eager = start(cls, options), start(cls, options)
    captured = Captured(replayed[1].step)
    saved = start(cls, options)
    both(saved, start(cls, options), range(2), Captured(saved[1].step))
    both(replayed, eager, range(2), captured)
    for _, optimizer in (replayed, eager):
        optimizer.load_state_dict(saved[1].state_dict())
    both(replayed, eager, range(3), captured)
    compare(replayed, eager)
    for params, optimizer in (replayed, eager):  # an eager step, which goes on in the graph's memory
        set_grads(params, 9)
        optimizer.step()
    both(replayed, eager, range(2), captured)
    compare(replayed, eager)


def test_a_constant_learning_rate_is_found(monkeypatch):
    replayed, eager = start("Adam", {}), start("Adam", {})
    captured, group = Captured(replayed[1].step), dict(replayed[1].param_groups[0])
    monkeypatch.setattr("autograd_gpu.optim.captured.with_numbers", lambda _: group)
    both(replayed, eager, range(3), captured)
    with pytest.raises(AssertionError, match="not equal"):
        compare(replayed, eager)


@pytest.mark.parametrize("options", [{}, {"foreach": True}])
@pytest.mark.parametrize("cls", ["SGD", "Adam", "RAdam"])
def test_an_infinite_parameter_does_not_decay(cls, options):
    """A weight decay of 0 is left out, rather than multiplied with."""
    options = options | ({"momentum": 0.9} if cls == "SGD" else {})
    replayed, eager = start(cls, options), start(cls, options)
    for params, _ in (replayed, eager):
        with ag.no_grad():
            params[0][0, 0] = math.inf
    captured = Captured(replayed[1].step)
    both(replayed, eager, range(3), captured, lambda optimizer, step: None)
    name = "momentum_buffer" if cls == "SGD" else "exp_avg"
    assert math.isfinite(replayed[1].state[replayed[0][0]][name][0, 0].item())
    if cls != "SGD":
        compare(replayed, eager)


def test_a_schedule_and_a_tensor_as_learning_rate():
    results = []
    for graph in (True, False):
        params, optimizer = start("Adam", {"lr": ag.tensor(0.1, device="cpu")})
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        step = Captured(optimizer.step).replay if graph else optimizer.step
        for i in range(4):
            set_grads(params, i)
            step()
            scheduler.step()
        results.append((params, optimizer))
    compare(*results)


def clipped(graph):
    """Parameters and their optimizer after steps on clipped gradients, and the norms."""
    params, optimizer = start("SGD", {"lr": 0.1, "momentum": 0.9})
    x, norms = ag.zeros(5), []

    def work():
        optimizer.zero_grad(set_to_none=False)
        (params[0].t() @ x * 3).sum().backward()
        norm = ag.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        return norm

    work()
    captured = Captured(work) if graph else None
    for i in range(4):
        with ag.no_grad():
            x.fill_(0.02 + i)
        if captured:
            captured.replay()
        norms.append((captured.result if captured else work()).item())
    assert norms[0] < 1 < norms[3]
    return params, optimizer


def test_clipping_and_zeroed_gradients():
    compare(clipped(graph=True), clipped(graph=False))


def stepped_in_backward(graph):
    params, optimizer = start("AdamW", {"lr": 0.1})
    handle = optim.step_in_backward(optimizer)
    for param in params:
        param.grad = None

    def work():
        sum([(p * p.sin()).sum() for p in params]).backward()

    step = Captured(work).replay if graph else work
    for i in range(4):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        step()
    handle.remove()
    return params, optimizer


def test_steps_in_backward():
    compare(stepped_in_backward(graph=True), stepped_in_backward(graph=False))


def test_the_scale_of_losses():
    w, scaler = ag.ones(3, requires_grad=True), ag.amp.GradScaler("cuda", init_scale=4.0)

    def work():
        (grad,) = ag.autograd.grad(scaler.scale((w * w).sum()), w)
        return grad

    work()
    captured = Captured(work)
    for scale in (4.0, 2.0**16):
        scaler.load_state_dict({**scaler.state_dict(), "scale": scale})
        captured.replay()
        assert captured.result.tolist() == [2 * scale] * 3


# ---- refusals ------------------------------------------------------------------------------------------


def refused(work, match):
    with pytest.raises(RuntimeError, match=match):
        Captured(work)


@pytest.mark.parametrize("cls", ["Adam", "RMSprop"])
def test_capturable_is_wanted(cls):
    _, optimizer = start(cls, {})
    optimizer.param_groups[0]["capturable"] = False
    refused(optimizer.step, f"Attempting CUDA graph capture of step.. for an instance of {cls} but param_groups. "
                            "capturable is False. Construct it with capturable=True")  # fmt: skip


def test_what_cannot_be_captured():
    w = ag.ones(3, requires_grad=True)
    w.grad = ag.ones(3)
    refused(optim.Adam([w], capturable=True).step, "makes its state in the first step.*Run one step before the capture")
    lbfgs = optim.LBFGS([w])
    refused(lambda: lbfgs.step(lambda: w.sum()), "a step of LBFGS cannot be captured.*its closure may replay a graph")
    on_device = optim.SGD([w], lr=ag.tensor(0.1, device="cuda"))
    refused(on_device.step, "lr is a CUDA tensor: make it a number, or a tensor on the CPU")
    recorded = optim.SGD([w.detach().clone()], differentiable=True)
    refused(recorded.step, "differentiable=True cannot be captured.*call step.. after the replay")
    column = ag.ones(3, 3)[:, 0].requires_grad_()
    column.grad = ag.ones(3)
    refused(optim.SGD([column]).step, r"contiguous CUDA parameters that do not overlap; one of shape \[3\] on cuda")
    host = ag.ones(3, device="cpu").requires_grad_()
    host.grad = ag.ones(3, device="cpu")
    refused(optim.SGD([host]).step, "a replay would leave one on the CPU as it is: call step.. after the replay")
    scaler = ag.amp.GradScaler("cuda")
    refused(lambda: scaler.scale(ag.ones(1, dtype=ag.float16)), r"float16 may not hold the scale: scale.loss.float")


def test_what_a_replay_cannot_do():
    params, optimizer = start("SGD", {"momentum": 0.9, "foreach": True})
    captured, group = Captured(optimizer.step), optimizer.param_groups[0]
    group["momentum"] = 0
    with pytest.raises(RuntimeError, match=r"momentum to or from 0, and takes the state \[\].*capture the step again"):
        captured.replay()
    group["momentum"] = 0.9
    kept = optimizer.state[params[0]].pop("momentum_buffer")
    with pytest.raises(RuntimeError, match="the state of SGD lacks momentum_buffer"):
        captured.replay()
    optimizer.state[params[0]]["momentum_buffer"] = kept
    captured.replay()
    params[0].data = params[0].detach().clone()
    with pytest.raises(RuntimeError, match="has other memory than when the step was captured"):
        captured.replay()


def test_step_counts_that_differ_at_a_replay():
    params, optimizer = start("Adam", {})
    captured = Captured(optimizer.step)
    optimizer.state[params[0]]["step"] += 3
    before = [int(optimizer.state[param]["step"]) for param in params]
    with pytest.raises(RuntimeError, match="have taken different ones now: capture it again"):
        captured.replay()
    assert [int(optimizer.state[param]["step"]) for param in params] == before


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "RAdam"])
def test_a_replay_that_is_refused_counts_nothing(name):
    (params, first), (_, second) = start(name, {}), start("SGD", {"momentum": 0.9})
    generator = ag.random.Generator("cuda").manual_seed(3)

    def step():
        ag.rand(4, generator=generator, device="cuda")
        first.step()
        second.step()

    captured = Captured(step)
    captured.replay()
    before, state = values(params, first), generator.get_state()
    second.param_groups[0]["momentum"] = 0
    with pytest.raises(RuntimeError, match="capture the step again"):
        captured.replay()
    for left, right in zip(values(params, first), before, strict=True):
        np.testing.assert_array_equal(left, right)
    assert ag.equal(generator.get_state(), state)


def test_step_counts_that_differ_at_the_capture():
    replayed, eager = start("Adam", {}), start("Adam", {})
    for params, optimizer in (replayed, eager):
        optimizer.state[params[0]]["step"] += 3
    both(replayed, eager, range(3), Captured(replayed[1].step))
    compare(replayed, eager)
