"""A compiled training step on the run's device: on CUDA programs run the kernels of eager code."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim


def steps(device, compiled, count=7):
    ag.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Dropout(0.5), nn.Linear(4, 2)).to(device)
    o = optim.Adam(m.parameters(), lr=0.01)

    def step(x, y):
        o.zero_grad()
        loss = nn.functional.cross_entropy(m(x) * 2, y)  # else the sums for the bias have another order on CUDA
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        with ag.no_grad():
            m[4].bias.mul_(0.5)
        return loss.detach()

    f, random, seen = ag.compile(step, fullgraph=True) if compiled else step, np.random.default_rng(1), []
    for _ in range(count):
        x = ag.tensor(random.uniform(-1, 1, (4, 3)).astype("f4"), device=device)
        loss = f(x, ag.tensor([0, 1, 1, 0], device=device))
        state = [loss, *m.parameters(), *(p.grad for p in m.parameters())]
        seen.append([t.detach().cpu().numpy().tobytes() for t in state])
    return seen, f


def test_a_training_step(device):
    expected, _ = steps(device, False)
    seen, f = steps(device, True)
    assert seen == expected
    assert f.counts.compiled == 4


def test_backward_outside(device):
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
    f, seen = ag.compile(m, fullgraph=True), []
    for g in (m, f, m, f, m, f):  # eager first, which compiles the kernels
        x = ag.tensor(np.full((2, 3), 0.5, "f4"), device=device, requires_grad=True)
        m.zero_grad()
        g(x).sum().backward()
        seen.append([t.cpu().numpy().tobytes() for t in (x.grad, *(p.grad for p in m.parameters()))])
    assert all(row == seen[0] for row in seen)
    assert f.counts.compiled == 1


def test_arithmetic_of_several_ops_is_one_launch(device):
    """On CUDA last bits may differ from eager code: the compiler contracts, and half types are rounded once."""
    x, y = (ag.tensor(np.random.default_rng(k).uniform(-2, 2, (6, 8)).astype("f4"), device=device) for k in (1, 2))

    def f(x, y, scale):
        z = nn.functional.silu(x * y + 1)
        return z * scale - x.exp(), z.tanh()

    scale = ag.tensor(0.5, device=device)
    for dtype, close in ((ag.float32, 1e-6), (ag.float16, 2e-3)):
        args = [t.to(dtype) for t in (x, y, scale)]
        compiled, expected = ag.compile(f, fullgraph=True), f(*args)
        for _ in range(3):
            results = compiled(*args)
        for got, want in zip(results, expected, strict=True):
            assert got.dtype == dtype
            np.testing.assert_allclose(got.cpu().float().numpy(), want.cpu().float().numpy(), close, close)
        with ag.profiler.count() as counted:
            compiled(*args)
        if device != "cpu":  # a half type beside a number is cast
            assert counted.launches["group"] == (1 if dtype == ag.float32 else 2)


@pytest.mark.parametrize("view", [
    lambda x: x[:, 1], lambda x: x.mT, lambda x: x[1], lambda x: x[:, :1], lambda x: x.reshape(2, 3, 8)[:, ::2],
    lambda x: x,
], ids=["column", "transposed", "row", "columns", "apart", "whole"])  # fmt: skip
def test_rows_columns_and_strided_operands_are_read_in_place(device, view):
    def f(x, y):
        a, b = view(x), view(y)
        return (a * b + 1) * a, (a - b).square() * (x if a.shape in ((8,), (6, 1)) else a)

    x, y = (ag.tensor(np.random.default_rng(k).uniform(-2, 2, (6, 8)).astype("f4"), device=device) for k in (1, 2))
    compiled, expected = ag.compile(f, fullgraph=True), f(x, y)
    for _ in range(3):
        results = compiled(x, y)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got.cpu().numpy(), want.cpu().numpy(), 1e-6, 1e-6)


def test_a_choice_is_one_launch(device):
    def f(x, y):
        return ag.where((x > y) & ~(x == 0), x, y).square()

    x, y = (ag.tensor([np.nan, 1.0, 2.0, 0.0, -3.0, 4.0][k:] + [0.0] * k, device=device) for k in (0, 2))
    compiled = ag.compile(f, fullgraph=True)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(x, y).cpu().numpy(), f(x, y).cpu().numpy())
    with ag.profiler.count() as counted:
        compiled(x, y)
    assert device == "cpu" or counted.launches == {"group": 1}


def test_the_gradient_of_a_derivative_joins_groups(device):
    """A step with second derivatives: nothing but products, groups, sums and the update is launched."""
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    update = ag.optim.Adam(model.parameters(), lr=1e-2)

    @ag.compile(fullgraph=True)
    def step(x):
        update.zero_grad()
        (first,) = ag.autograd.grad(model(x).sum(), x, create_graph=True)
        second = sum(ag.autograd.grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2))
        loss = (second ** 2).mean()
        loss.backward()
        update.step()
        return loss.detach()

    x = ag.randn(16, 2, device=device).requires_grad_()
    losses = [step(x).item() for _ in range(5)]
    assert losses[-1] < losses[0]
    with ag.profiler.count() as counted:
        step(x)
    if device != "cpu":
        allowed = {"gemm", "group", "bias_tanh", "bias_tanh_backward", "row_mean", "adam_step", "column_sum"}
        assert counted.launches.keys() <= allowed
        assert counted.launches["group"] < 20


def test_what_is_one_launch_already_stays_that(device):
    compiled = ag.compile(lambda x: nn.functional.silu(x), fullgraph=True)
    for _ in range(3):
        compiled(ag.ones(4, device=device))
    assert "group" not in compiled.print_readable(print_output=False) or device == "cpu"


def test_reduce_overhead_on_the_host_is_the_default_mode():
    f = ag.compile(lambda x: x * 2, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        assert f(ag.ones(3, device="cpu")).tolist() == [2.0] * 3
    assert f.counts.compiled == 2
    assert str(f.explain()).endswith("1 mul; no graph: on the CPU")


def test_other_modes_raise():
    with pytest.raises(ValueError, match=r"'max-autotune'.* is not supported; there are 'default', 'reduce-overhead'"):
        ag.compile(abs, mode="max-autotune")


def test_a_program_holds_no_array_of_the_traced_call(device):
    if device == "cpu":
        pytest.skip("test_emitters.py has this for host memory")
    compiled = ag.compile(lambda x: ((x.exp() + 1).cumsum(0), x.sum()), fullgraph=True)
    for _ in range(3):
        compiled(ag.ones(1 << 12, device=device))
    ((_, replay),) = next(iter(compiled._kinds.values())).programs
    results = [v.array for v in replay.trace.values if v.kind == "result"]
    assert len(results) >= 3
    assert all(array.data.mem.size <= 512 for array in results)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_calls_that_differ_by_sizes_share_a_program(device, mode):
    def training(compiled):
        ag.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)).to(device)
        o = optim.SGD(m.parameters(), lr=0.1)

        def step(x, y):
            o.zero_grad()
            loss = nn.functional.cross_entropy(m(x) * 2, y, reduction="sum") / x.shape[0]
            loss.backward()
            o.step()
            return loss.detach()

        f, seen = ag.compile(step, dynamic=True, fullgraph=True, mode=mode) if compiled else step, []
        for n in (5, 5, 7, 9, 11, *[6] * 7, 8, 6):
            random = np.random.default_rng(n)
            x = ag.tensor(random.uniform(-1, 1, (n, 3)).astype("f4"), device=device)
            loss = f(x, ag.tensor(random.integers(0, 2, n), device=device))
            state = [loss, *m.parameters(), *(p.grad for p in m.parameters())]
            seen.append([t.detach().cpu().numpy().tobytes() for t in state])
        return seen, f

    expected, _ = training(False)
    seen, f = training(True)
    assert seen == expected
    assert f.counts.traced == 4
    assert f.counts.compiled == 10
    (own,) = [info for info in f.explain().programs if "[6, 3]" in info.arguments]
    graph = "no graph: on the CPU" if device == "cpu" else "1 CUDA graph"
    assert own.graph == (graph if mode == "reduce-overhead" else "")
