"""Training steps as CUDA graphs beside the steps themselves: memory hooks, refusals, leaks (test_graph_matrix.py)."""

import gc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn

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
