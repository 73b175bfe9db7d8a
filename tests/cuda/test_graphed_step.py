"""make_graphed_step: a graph for each kind of inputs, what it logs, and when it runs without one."""

import logging
import warnings

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cuda


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "autograd_gpu.cuda.graphs")
    return caplog


def test_a_line_for_each_shape(log, device):
    graphed = ag.cuda.make_graphed_step(lambda x, n: (x * n).sum(), warmup=1)
    for rows in (4, 2, 4, 2, 4):
        for _ in range(3):
            x = ag.randn(rows, 3)
            assert graphed(x, 2).item() == pytest.approx(2 * x.sum().item(), rel=1e-5)
    lines = [record.getMessage() for record in log.records]
    assert [line.partition(" captured for ")[2].partition(";")[0] for line in lines] == [
        "(float32[4, 3], 2)", "(float32[2, 3], 2)"]
    assert all("the memory of its graphs is" in line for line in lines)
    assert graphed.graphs == 2


def test_one_warning_with_the_reason_and_eager_steps(log, device):
    calls = []

    def careless(x):
        calls.append(1)
        return x * float(x.sum())

    graphed = ag.cuda.make_graphed_step(careless, warmup=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(6):
            assert graphed(ag.full((3,), float(i))).tolist() == [3.0 * i * i] * 3
    (warning,) = caught
    assert "runs without a graph: __float__ cannot be captured in a CUDA graph, at" in str(warning.message)
    assert warning.filename == __file__
    assert len(calls) == 7  # one of them ended in the capture
    assert (graphed.graphs, graphed._pool) == (0, None)  # the memory of the capture is gone


def test_float8_runs_eagerly(device):
    """A graph would take its codes for numbers."""
    x = ag.tensor([1.0, 2.0], device=device)
    unpacked = ag.cuda.make_graphed_step(lambda code: code.float() + 1, warmup=1)
    packed = ag.cuda.make_graphed_step(lambda x: x.to(ag.float8_e4m3fn), warmup=1)
    with pytest.warns(UserWarning, match="runs without a graph: input 0 is a tensor in float8_e4m3fn, whose codes"):
        assert unpacked(x.to(ag.float8_e4m3fn)).tolist() == [2.0, 3.0]
    packed(x)
    with pytest.warns(UserWarning, match="runs without a graph: a result is a tensor in float8"):
        assert packed(x).float().tolist() == [1.0, 2.0]


def test_a_step_whose_state_comes_late_is_captured_then(log, device):
    """The first two steps overflow, so that the optimizer has not stepped when the capture is due."""
    w = ag.nn.Parameter(ag.ones(2))
    optimizer, scaler = ag.optim.Adam([w], lr=0.5, capturable=True), ag.amp.GradScaler(init_scale=8.0)

    def step(x):
        optimizer.zero_grad()
        scaler.scale((w * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    graphed = ag.cuda.make_graphed_step(step, warmup=1)
    for factor in (float("inf"), float("inf"), 1.0, 1.0, 1.0):
        graphed(ag.full((2,), factor))
    assert graphed.graphs == 1
    assert "not captured yet" in log.text
    assert "makes its state in the first step" in log.text
    assert scaler.get_scale() == 2
    assert int(optimizer.state[w]["step"]) == 3


def test_warming_up_steps_and_the_capture_does_not(device):
    """Each call is one step, and so are those that are made with samples."""
    w = ag.zeros(1, requires_grad=True)
    optimizer = ag.optim.SGD([w], lr=1.0, momentum=0.5)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()

    expected, momentum, weight = [], 0.0, 0.0
    for _ in range(8):
        momentum = 0.5 * momentum + 1
        weight -= momentum
        expected.append(weight)
    graphed = ag.cuda.make_graphed_step(step, ag.ones(1), warmup=3)
    assert (graphed.graphs, w.tolist()) == (1, expected[2:3])
    assert [graphed(ag.ones(1)).item() for _ in range(5)] == expected[3:]
