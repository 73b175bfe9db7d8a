"""Training by replays of captured and of compiled steps beside training without.

In between schedules, options, batch sizes and loaded states change.
"""

import copy

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn, optim
from autograd_gpu.func import hessian, vmap

pytestmark = pytest.mark.cuda
ROWS = (6, 4)  # two batch sizes
STEPS, SAVED, LOADED, DECAYS = 32, 10, 22, 14  # a second size in each fourth step: 21 replays of the first, 5 of it
SCHEDULES = ["late", "eager", "random:1", *[pytest.param(f"random:{n}", marks=pytest.mark.more) for n in (2, 3)]]


def mean_square(model, x, y):
    return ((model(x) - y) ** 2).mean()


def residual(model, x):
    """Of u'' + u = 0."""
    x = x.detach().requires_grad_()
    u = model(x)
    (slope,) = ag.autograd.grad(u.sum(), x, create_graph=True)
    (curve,) = ag.autograd.grad(slope.sum(), x, create_graph=True)
    return ((curve + u) ** 2).mean()


def curvature(model, x):
    return (vmap(hessian(lambda row: model(row).sum()))(x) ** 2).mean()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def mlp(*between, inputs=5, outputs=2):
    return nn.Sequential(nn.Linear(inputs, 8), *between, nn.Tanh(), nn.Linear(8, outputs))


CASES = {  # model, loss, shapes of a row of each input, optimizer
    "MLP": (mlp, mean_square, [(5,), (2,)], lambda ps: optim.SGD(ps, lr=0.05, momentum=0.9)),
    "dropout": (lambda: mlp(nn.Dropout(0.3)), mean_square, [(5,), (2,)],
                lambda ps: optim.AdamW(ps, lr=0.05, capturable=True)),
    "PINN": (lambda: mlp(inputs=1, outputs=1), residual, [(1,)], lambda ps: optim.Adam(ps, lr=0.02, capturable=True)),
    "batch norm": (lambda: mlp(nn.BatchNorm1d(8)), mean_square, [(5,), (2,)], lambda ps: optim.SGD(ps, lr=0.05)),
    "LSTM": (Recurrent, mean_square, [(3, 3), (1,)], lambda ps: optim.RMSprop(ps, lr=0.01, capturable=True)),
    "Hessian": (lambda: mlp(inputs=3), curvature, [(3,)], lambda ps: optim.NAdam(ps, lr=0.02, capturable=True)),
    "step in backward": (mlp, mean_square, [(5,), (2,)], lambda ps: optim.Adam(ps, lr=0.02, capturable=True)),
}  # fmt: skip


def step_of(model, loss_of, update, in_backward):
    if in_backward:
        optim.step_in_backward(update)

    def step(*inputs):
        if not in_backward:
            update.zero_grad()
        loss = loss_of(model, *inputs)
        loss.backward()
        if not in_backward:
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            update.step()
        return loss

    return step


def compiled(step):
    return ag.compile(step, mode="reduce-overhead", fullgraph=True)


def trained(name, wrap):
    """Losses, what is left in the model and its optimizer, and what `wrap` made of the step."""
    make, loss_of, shapes, optimizer = CASES[name]
    ag.manual_seed(0)
    model, rng = make(), np.random.default_rng(0)
    update = optimizer(model.parameters())
    schedule = optim.lr_scheduler.CosineAnnealingLR(update, STEPS)
    step = step_of(model, loss_of, update, name == "step in backward")
    run, losses = wrap(step), []
    for i in range(STEPS):
        if i == SAVED:
            saved = copy.deepcopy((model.state_dict(), update.state_dict()))
        if i == LOADED:
            for owner, state in zip((model, update), saved, strict=True):
                owner.load_state_dict(state)
        if i == DECAYS:
            update.param_groups[0]["weight_decay"] = 0.1
        rows = ROWS[i % 4 == 3]
        losses.append(run(*[ag.tensor(rng.normal(size=(rows, *shape)).astype(np.float32)) for shape in shapes]))
        schedule.step()
    states = [value for p in model.parameters() for value in update.state[p].values() if isinstance(value, ag.Tensor)]
    return [backend.to_numpy(x.detach().array) for x in (*losses, *model.state_dict().values(), *states)], run


@pytest.fixture(scope="module")
def reference():
    """What a case gives without graphs: once, in the order of streams that is set then."""
    results = {}

    def of(name):
        if name not in results:
            results[name], _ = trained(name, lambda step: step)
        return results[name]

    return of


@pytest.mark.parametrize("schedule", SCHEDULES, indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_replays_are_steps(name, schedule, reference):
    expected = reference(name)
    results, run = trained(name, ag.cuda.make_graphed_step)
    assert run.graphs == len(ROWS)
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES, indirect=True)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("dropout", "step in backward")])  # refused
def test_replays_of_compiled_steps_are_steps(name, schedule, reference):
    expected = reference(name)
    results, run = trained(name, compiled)
    assert run.counts.compiled > STEPS / 2
    assert all("CUDA graph" in program.graph for program in run.explain().programs)
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)
