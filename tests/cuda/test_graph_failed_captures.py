"""A capture that fails leaves nothing behind: no capture, no memory, no state that it had begun to change."""

import gc
import threading
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn
from autograd_gpu.cuda.capture_errors import CaptureError
from autograd_gpu.optim import lr_scheduler, swa_utils

pytestmark = pytest.mark.cuda


def plain(value):
    return backend.to_numpy(value.detach().array).tolist() if isinstance(value, ag.Tensor) else value


class Training:
    """A model with all that a step may change, and that step."""

    def __init__(self, name="Adam", **options):
        ag.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.update = getattr(ag.optim, name)(self.model.parameters(), lr=0.1, **options)
        self.average = swa_utils.AveragedModel(self.model)
        self.scaler = ag.amp.GradScaler(init_scale=8.0)
        self.x = ag.randn(6, 3)

    def step(self, fail=False):
        self.update.zero_grad()
        loss = (self.model(self.x) ** 2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.update)
        self.scaler.update()
        self.average.update_parameters(self.model)
        return loss.item() if fail else loss

    def state(self):
        state = [{key: plain(value) for key, value in state.items()} for state in self.update.state.values()]
        grads = [None if p.grad is None else plain(p.grad) for p in self.model.parameters()]
        modules = [plain(v) for module in (self.model, self.average) for v in module.state_dict().values()]
        return state, grads, modules, self.scaler.state_dict(), ag.cuda.get_rng_state().tolist()


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(("name", "options"), [
    ("Adam", {"capturable": True}), ("SGD", {}), ("SGD", {"momentum": 0.9}),
])  # fmt: skip
def test_everything_is_as_it_was(name, options, steps, device):
    """The first step of Adam, and of momentum, would make state in the capture, and is refused there."""
    training = Training(name, **options)
    for _ in range(steps):
        training.step()
    leaves = [p.grad for p in training.model.parameters()]
    before = training.state()
    refused = "the first step|makes its state" if not steps and options else "item cannot be captured"
    for _ in range(2):
        with pytest.raises(CaptureError, match=refused), ag.cuda.graph(ag.cuda.CUDAGraph()):
            training.step(fail=True)
        assert training.state() == before
        assert all(p.grad is grad for p, grad in zip(training.model.parameters(), leaves, strict=True))
    position, again, states = ag.cuda.get_rng_state(), Training(name, **options), []
    for _ in range(steps):
        again.step()
    for one in (training, again):  # and goes on as if nothing had been
        ag.cuda.set_rng_state(position)
        one.step()
        states.append(one.state())
    assert states[0] == states[1]


def test_the_stream_is_free_and_the_memory_gone(device):
    x, stream, pool = ag.ones(64), ag.cuda.Stream(), ag.cuda.graph_pool_handle()
    gc.collect()
    ag.cuda.empty_cache()
    before, kept = ag.cuda.memory_reserved(), []

    def fail():
        with ag.cuda.graph(ag.cuda.CUDAGraph(), pool=pool, stream=stream):
            y = x * 2
            kept.append(weakref.ref(y))
            y.sum().item()

    with pytest.raises(CaptureError, match=rf"item cannot be captured in a CUDA graph, at {__file__}:\d+"):
        fail()
    assert kept[0]() is None
    assert pool.memory.used_bytes() == 0
    pool = None
    assert ag.cuda.memory_reserved() == before
    stream.wait_stream(ag.cuda.current_stream())
    with ag.cuda.stream(stream):  # runs at once, and may be captured again
        assert (x + 1).tolist() == [2] * 64
        assert not ag.cuda.is_current_stream_capturing()
    cuda_graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(cuda_graph, stream=stream):
        y = x * 2
    cuda_graph.replay()
    assert y.tolist() == [2] * 64


def test_another_thread_trains_meanwhile(device):
    """It is not recorded, and a capture that fails takes nothing of its back."""
    mine, alone = Training("SGD", momentum=0.9), Training("SGD", momentum=0.9)
    theirs, losses = Training("SGD", momentum=0.9), []
    mine.step()

    def train():
        losses.extend(theirs.step().item() for _ in range(4))

    def fail():
        with ag.cuda.graph(ag.cuda.CUDAGraph()):
            mine.step()
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()
            mine.step(fail=True)

    before = mine.state()[:4]
    ag.cuda.manual_seed(3)
    with pytest.raises(CaptureError, match="item cannot be captured"):
        fail()
    assert mine.state()[:4] == before
    ag.cuda.manual_seed(3)
    assert losses == [alone.step().item() for _ in range(4)]
    assert theirs.state() == alone.state()


SCHEDULERS = {
    "StepLR": lambda update: lr_scheduler.StepLR(update, 1),
    "CosineAnnealingWarmRestarts": lambda update: lr_scheduler.CosineAnnealingWarmRestarts(update, 4),
    "ReduceLROnPlateau": lambda update: lr_scheduler.ReduceLROnPlateau(update, patience=0),
    "SequentialLR": lambda update: lr_scheduler.SequentialLR(
        update, [lr_scheduler.ConstantLR(update), lr_scheduler.ExponentialLR(update, 0.5)], [2]),
    "ChainedScheduler": lambda update: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(update, 0.5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_is_refused(name, device):
    update = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=0.1)
    update.step()
    scheduler = SCHEDULERS[name](update)
    before = repr(scheduler.state_dict()), update.param_groups[0]["lr"]
    refused = pytest.raises(CaptureError, match=r"step\(\) of a scheduler cannot be captured .* after the replay")
    with refused, ag.cuda.graph(ag.cuda.CUDAGraph()):
        scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
    assert (repr(scheduler.state_dict()), update.param_groups[0]["lr"]) == before


def test_gradients_that_are_zeroed_in_place(schedule):
    """Clipping by norm and by value, and `set_to_none=False`, over replays."""
    outcomes = []
    for graphed in (True, False):
        ag.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        update = ag.optim.Adam(model.parameters(), lr=0.05, capturable=True)

        def step(x, model=model, update=update):
            update.zero_grad(set_to_none=False)
            (model(x) ** 2).sum().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            nn.utils.clip_grad_value_(model.parameters(), 0.3)
            update.step()
            return norm

        run = ag.cuda.make_graphed_step(step) if graphed else step
        norms = [run(ag.randn(5, 3)) for _ in range(24)]
        if graphed:
            assert run.graphs == 1
        left = [value for p in model.parameters() for value in (p, p.grad)]
        outcomes.append([plain(value) for value in (*norms, *left)])
    np.testing.assert_equal(*outcomes)
