"""GradScaler: the same scales, steps, states and errors as PyTorch's on the CPU."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.cuda.capture_errors import CaptureError


def both():
    return pytest.importorskip("torch"), ag


def train(m, factors, **options):
    """Parameters and scales after steps whose loss has these factors; inf makes a gradient overflow."""
    w = m.nn.Parameter(m.tensor([1.0, -2.0]))
    optimizer, scaler = m.optim.SGD([w], lr=0.1, momentum=0.9), m.amp.GradScaler("cpu", **options)
    seen = []
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale((w * w).sum() * factor).backward()
        scaler.unscale_(optimizer)
        if w.grad.isfinite().all():
            m.nn.utils.clip_grad_norm_([w], 3.0)
        scaler.step(optimizer)
        scaler.update()
        seen.append((w.tolist(), scaler.get_scale(), scaler.state_dict()))
    return seen


@pytest.mark.cpu
@pytest.mark.parametrize("options", [
    {}, {"init_scale": 4.0}, {"growth_interval": 2}, {"enabled": False},
    {"init_scale": 8.0, "growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 1},
])  # fmt: skip
def test_steps_like_pytorch(options):
    torch, _ = both()
    factors = [1.0, 2.0, 0.5] if not options.get("enabled", True) else [1.0, float("inf"), 2.0, 1.0, float("nan"), 0.5]
    for (w, scale, state), (v, expected, theirs) in zip(train(ag, factors, **options), train(torch, factors, **options),
                                                      strict=True):
        assert np.allclose(w, v)
        assert (scale, state) == (expected, theirs)


@pytest.mark.cuda
def test_on_cuda():
    w = ag.nn.Parameter(ag.ones(2, device="cuda"))
    optimizer, scaler = ag.optim.SGD([w], lr=0.5), ag.cuda.amp.GradScaler(init_scale=8.0)
    for factor, expected, scale in ((1.0, 0.5, 8.0), (float("inf"), 0.5, 4.0)):
        optimizer.zero_grad()
        scaler.scale(w.sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert w.tolist() == [expected] * 2
        assert scaler.get_scale() == scale


@pytest.mark.cpu
@pytest.mark.parametrize("wrap", [list, tuple, lambda x: x, lambda x: [x, [x, (x,)]]])
def test_scales_nested_outputs(wrap):
    for m in both():
        scaled = m.amp.GradScaler("cpu", init_scale=4.0).scale(wrap([m.ones(1), m.ones(2)]))
        flat = str(scaled)
        assert "4., 4." in flat
        assert type(scaled) in (list, tuple)
    assert next(iter(ag.amp.GradScaler("cpu", init_scale=2.0).scale(iter([ag.ones(())])))).item() == 2
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        ag.amp.GradScaler("cpu").scale(3)


def stepped(m, dtype="float32"):
    w = m.nn.Parameter(m.ones(1, dtype=getattr(m, dtype)))
    optimizer, scaler = m.optim.SGD([w], lr=0.1), m.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(w.sum()).backward()
    return optimizer, scaler


def twice(method):
    def call(m):
        optimizer, scaler = stepped(m)
        for _ in range(2):
            getattr(scaler, method)(optimizer)

    return call


def after_step(m):
    optimizer, scaler = stepped(m)
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


def without_gradients(m):
    scaler = m.amp.GradScaler("cpu")
    scaler.scale(m.ones(1))
    scaler.step(m.optim.SGD([m.nn.Parameter(m.ones(1))], lr=1.0))


def without_a_step(m):
    scaler = m.amp.GradScaler("cpu")
    scaler.scale(m.ones(1))
    scaler.update()


def halves(m):
    optimizer, scaler = stepped(m, "float16")
    scaler.unscale_(optimizer)


def closure(m):
    optimizer, scaler = stepped(m)
    scaler.step(optimizer, closure=lambda: 0.0)


REFUSED = [
    twice("unscale_"), twice("step"), after_step, without_gradients, without_a_step, halves, closure,
    lambda m: m.amp.GradScaler("cpu").load_state_dict({}),
    lambda m: m.amp.GradScaler("cpu", growth_factor=1.0),
    lambda m: m.amp.GradScaler("cpu", backoff_factor=1.0),
]  # fmt: skip


@pytest.mark.cpu
@pytest.mark.parametrize("call", REFUSED)
def test_errors_are_pytorchs(call):
    texts = []
    for m in both():
        with pytest.raises((RuntimeError, AssertionError, ValueError)) as error:
            call(m)
        texts.append((error.type, str(error.value)))
    assert texts[0] == texts[1]


@pytest.mark.cpu
def test_settings_and_states():
    for m in both():
        scaler, other = m.amp.GradScaler("cpu", init_scale=4.0), m.amp.GradScaler("cpu")
        scaler.set_growth_factor(3.0)
        scaler.set_backoff_factor(0.1)
        scaler.set_growth_interval(7)
        other.load_state_dict(scaler.state_dict())
        for s in (scaler, other):
            assert (s.get_scale(), s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval()) == (
                4.0, 3.0, 0.1, 7)  # fmt: skip
        scaler.scale(m.ones(1))
        scaler.update(new_scale=16.0)
        assert scaler.get_scale() == 16.0
        off = m.amp.GradScaler("cpu", enabled=False)
        off.load_state_dict({})
        off.update()
        assert (off.is_enabled(), off.get_scale(), off.state_dict()) == (False, 1.0, {})
        assert off.step(m.optim.SGD([m.nn.Parameter(m.ones(1))], lr=1.0), closure=lambda: 3.0) == 3.0


@pytest.mark.cpu
@pytest.mark.skipif(ag.cuda.is_available(), reason="with CUDA it is enabled")
def test_without_cuda_it_passes_through():
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        scaler = ag.cuda.amp.GradScaler()
    assert not scaler.is_enabled()
    x = ag.ones(1)
    assert scaler.scale(x) is x


@pytest.mark.emulated
def test_three_launches_and_one_read_for_all_parameters(launches):
    parameters = [ag.nn.Parameter(ag.rand(n, 3)) for n in range(1, 30)]
    optimizer, scaler = ag.optim.SGD(parameters, lr=0.1), ag.amp.GradScaler(init_scale=8.0)
    for p in parameters:
        p.grad = ag.full_like(p, 8.0)
    with launches() as found:
        scaler.unscale_(optimizer)
    assert (sum(found.kernels.values()), found.transfers) == (3, 1), found
    assert all((p.grad == 1).all() for p in parameters)


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_one_bad_number_among_gradients_of_several_dtypes(value, place, device):
    dtypes = [ag.float32, ag.bfloat16, ag.float64, ag.float32, ag.float64, ag.float32, ag.bfloat16]
    parameters = [ag.nn.Parameter(ag.ones(4, 5, dtype=dtype, device=device)) for dtype in dtypes]
    optimizer, scaler = ag.optim.SGD(parameters, lr=0.5), ag.amp.GradScaler(device, init_scale=8.0)
    for wrong in (False, True):
        for i, p in enumerate(parameters):
            p.grad = ag.full_like(p, 8.0)
            if i % 2:
                p.grad = p.grad.t().contiguous().t()
        if wrong:
            parameters[place].grad[2, 3] = value
        versions = [p.grad._version for p in parameters]
        scaler.step(optimizer)
        assert [p.grad._version for p in parameters] == [version + 1 for version in versions]
        scaler.update()
        assert all((p == 0.5).all() for p in parameters)  # the second step is skipped
    assert scaler.get_scale() == 4.0


# ---- in CUDA graphs ------------------------------------------------------------------------------------

FACTORS = [1.0, 0.5, 2.0, 1.0, float("inf"), 1.0, float("nan"), float("inf"), *[0.25 * i for i in range(1, 17)]]


def graphed_or_not(name, graphed, clip, options, dtype=None):
    """What training with overflows leaves: parameters, states, scales, and the scaler's state."""
    ag.manual_seed(0)
    model = ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.Tanh(), ag.nn.Linear(4, 1)).to("cuda", dtype)
    optimizer = getattr(ag.optim, name)(model.parameters(), **options)
    scaler = ag.amp.GradScaler(init_scale=256.0, growth_interval=3)
    halving = ag.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)

    def step(x, factor):
        optimizer.zero_grad()
        loss = (model(x).float() ** 2).mean() * factor
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            ag.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss

    run, seen = ag.cuda.make_graphed_step(step, warmup=2) if graphed else step, []
    for factor in FACTORS:
        x = ag.randn(5, 3, device="cuda", dtype=dtype or ag.float32)
        loss = run(x, ag.tensor(factor, device="cuda"))
        seen += [loss.item(), scaler.get_scale()]
        halving.step()
    assert not graphed or run.graphs == 1
    states = [value for state in optimizer.state.values() for value in state.values()]
    return seen, [x.detach().float().cpu().tolist() for x in [*model.parameters(), *states]], scaler.state_dict()


@pytest.mark.cuda
@pytest.mark.parametrize(("name", "clip", "options"), [
    ("SGD", False, {"lr": 0.1}), ("SGD", True, {"lr": 0.1, "momentum": 0.9}),
    ("Adam", True, {"capturable": True, "amsgrad": True}), ("AdamW", False, {"capturable": True}),
])  # fmt: skip
def test_replays_skip_steps_and_change_the_scale(name, clip, options, device):
    ours, theirs = (graphed_or_not(name, graphed, clip, options) for graphed in (True, False))
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]
    assert len(set(theirs[0][1::2])) > 3  # it fell and grew


@pytest.mark.cuda
def test_the_host_waits_for_what_a_replay_found_out(schedule):
    options = {"lr": 0.1, "momentum": 0.9}
    ours, theirs = (graphed_or_not("SGD", graphed, True, options) for graphed in (True, False))
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]


@pytest.mark.cuda
def test_a_graph_of_all_but_update(device):
    """What the replay found out is there for the calls after it."""
    w, x = ag.nn.Parameter(ag.ones(2)), ag.ones(2)
    optimizer, scaler = ag.optim.SGD([w], lr=0.5), ag.amp.GradScaler(init_scale=8.0)

    def work():
        w.grad = None
        scaler.scale((w * x).sum()).backward()
        scaler.step(optimizer)

    work()
    scaler.update()
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph):
        work()
    for value, expected, scale in ((1.0, 0.0, 8.0), (float("inf"), 0.0, 4.0), (1.0, -0.5, 4.0)):
        x.fill_(value)
        cuda_graph.replay()
        with pytest.raises(RuntimeError, match="already been called since the last update"):
            scaler.step(optimizer)
        scaler.update()
        assert (w.tolist(), scaler.get_scale()) == ([expected] * 2, scale)
    assert not optimizer.state


@pytest.mark.cuda
def test_steps_that_cannot_be_skipped_are_refused(device):
    class Plain(ag.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.sub_(p.grad)

    def attempt(make, begun=False):
        w = ag.nn.Parameter(ag.ones(2))
        optimizer, scaler = make([w]), ag.amp.GradScaler()
        scaler.scale((w * 2).sum()).backward()
        scaler.step(optimizer)
        if not begun:
            scaler.update()
        with ag.cuda.graph(ag.cuda.CUDAGraph()):
            scaler.step(optimizer)

    with pytest.raises(CaptureError, match=r"on the device, which step.. of Plain cannot: .* after the replay"):
        attempt(Plain)
    with pytest.raises(CaptureError, match=r"has begun cannot be captured .*: call update\(\) before the capture"):
        attempt(lambda params: ag.optim.SGD(params, lr=0.1), begun=True)
