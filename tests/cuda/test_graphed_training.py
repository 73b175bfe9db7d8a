"""Whole training steps as CUDA graphs: twenty replays give what the steps themselves give."""

import gc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn
from autograd_gpu.func import hessian, vmap

pytestmark = pytest.mark.cuda


def plain(tensor):
    return backend.to_numpy(tensor.detach().array)


def compared(make, inputs, graphs=1):
    """`make()` gives a step and the modules it trains: by replays and by itself it does the same."""
    outcomes = []
    for graphed in (True, False):
        ag.manual_seed(0)
        step, modules = make()
        run = ag.cuda.make_graphed_step(step) if graphed else step
        results = [run(*arrays) for arrays in inputs]
        if graphed:
            assert run.graphs == graphs
        state = [value for module in modules for value in module.state_dict().values()]
        outcomes.append([plain(value) for value in (*results, *state)])
    for ours, reference in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6)


def draws(*shapes, count=24):
    rng = np.random.default_rng(0)
    return [[ag.tensor(rng.normal(size=shape).astype(np.float32)) for shape in shapes] for _ in range(count)]


def trained(model, loss_of, **options):
    update = ag.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, **options)

    def step(*inputs):
        update.zero_grad()
        loss = loss_of(model, *inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        update.step()
        return loss

    return step, [model]


def test_batch_norm_keeps_its_statistics(schedule):
    def make():
        model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        return trained(model, lambda model, x, y: ((model(x) - y) ** 2).mean())

    compared(make, draws((6, 5), (6, 1)))


def test_a_physics_informed_network(schedule):
    def residual(model, x):
        x = x.detach().requires_grad_()
        u = model(x)
        (slope,) = ag.autograd.grad(u.sum(), x, create_graph=True)
        (curve,) = ag.autograd.grad(slope.sum(), x, create_graph=True)
        return ((curve + u) ** 2).mean()

    compared(lambda: trained(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), residual), draws((6, 1)))


def test_training_on_a_hessian(schedule):
    def loss(model, x):
        return (vmap(hessian(lambda row: model(row).sum()))(x) ** 2).mean()

    compared(lambda: trained(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), loss), draws((6, 3)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_schedules_and_dropout(name, schedule):
    batches = draws((8, 12), (8, 3))
    outcomes = []
    for graphed in (True, False):
        ag.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Dropout(0.3), nn.Linear(9, 3))
        options = {} if name == "SGD" else {"capturable": True}
        update = getattr(ag.optim, name)(model.parameters(), lr=0.05, **options)
        halving = ag.optim.lr_scheduler.StepLR(update, 5, 0.5)

        def step(x, y, model=model, update=update):
            update.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            update.step()
            return loss

        run, losses = ag.cuda.make_graphed_step(step) if graphed else step, []
        for x, y in batches:
            losses.append(run(x, y))
            halving.step()
        outcomes.append([plain(value) for value in (*losses, *model.parameters())])
    for ours, reference in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6)


def test_an_option_that_the_graph_does_not_have_changes_in_training():
    """The second optimizer refuses the replay when the first has counted its step: the step runs once all the same."""
    outcomes = []
    for graphed in (True, False):
        ag.manual_seed(0)
        a, b = (ag.tensor([1.0, 2.0], device="cuda", requires_grad=True) for _ in range(2))
        first = ag.optim.Adam([a], lr=0.1, capturable=True)
        second = ag.optim.SGD([b], lr=0.1, momentum=0.9)

        def step(a=a, b=b, first=first, second=second):
            first.zero_grad()
            second.zero_grad()
            ((a * b).sum() + (a * ag.rand(2, device="cuda")).sum()).backward()
            first.step()
            second.step()

        run = ag.cuda.make_graphed_step(step) if graphed else step
        for i in range(10):
            second.param_groups[0]["momentum"] = 0.9 if i < 7 else 0.0
            run()
        outcomes.append([*map(plain, (a, b)), float(first.state[a]["step"])])
    for ours, reference in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6)


def test_recurrent_layers(device):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    compared(lambda: trained(Net(), lambda model, x, y: ((model(x) - y) ** 2).mean()), draws((2, 5, 3), (2, 1)))


def test_a_step_in_backward(device):
    """Each parameter is updated as soon as its gradient is there, which is then dropped."""

    def make():
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

        def update(p):
            with ag.no_grad():
                p.sub_(0.05 * p.grad)
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)

        def step(x, y):
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            return loss

        return step, [model]

    compared(make, draws((6, 4), (6, 1)))


def test_replays_and_captures_leak_nothing(cp):
    """Memory of the device, and objects of ours and of CuPy's graphs, after many replays and after many captures."""
    x, pool = ag.ones(100), cp.get_default_memory_pool()
    graphed = ag.cuda.make_graphed_step(lambda x: (x * 2).sum())
    for _ in range(10):
        graphed(x)

    def held():
        cp.cuda.Device().synchronize()
        gc.collect()
        ours = [o for o in gc.get_objects() if type(o).__module__.startswith("autograd_gpu")]
        return pool.used_bytes(), len(ours)

    def replay():
        for _ in range(200):
            graphed(x)

    def capture():
        for _ in range(20):
            graphed.reset()
            for _ in range(5):
                graphed(x)

    for work in (replay, capture):
        work()
        before = held()
        work()
        assert held() == before
