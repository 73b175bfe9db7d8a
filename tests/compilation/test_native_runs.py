"""Runs of compiled programs: the bits of eager code, what joins a run, and what ends it."""

import itertools
import re

import numpy as np
import pytest
from compiled_groups import count_of_calls, programs_of

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.backend.formulas.native import runs
from autograd_gpu.backend.formulas.native.lists import ListKernel
from autograd_gpu.compilation import native_runs

pytest.importorskip("llvmlite", reason="runs need the extra [native]")
pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("at_once")]


@pytest.fixture(autouse=True)
def _openblas():
    if not runs.are_there():
        pytest.skip("NumPy uses another BLAS")


def runs_in(compiled):
    """How many runs the programs call, and the lines between the first and the last of them."""
    texts = [p.text for p in programs_of(compiled)]
    return sum(len(re.findall(r"^    run\d+\(", text, re.MULTILINE)) for text in texts), "\n".join(texts)


def training_step(sizes, activation, dtype, compiles, residual=False):
    ag.manual_seed(0)
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), activation())][:-1]
    model = nn.Sequential(*layers).to(dtype)
    update = optim.Adam(model.parameters(), lr=1e-2)

    def step(x, y):
        update.zero_grad()
        x = x.detach().requires_grad_()
        out = model(x)
        if residual:
            (out,) = ag.autograd.grad(out.sum(), x, create_graph=True)
            out = ag.autograd.grad(out[:, 0].sum(), x, create_graph=True)[0] * out
            loss = (out**2).mean()
        else:
            loss = ((out - y) ** 2).mean()
        loss.backward()
        update.step()
        return loss.detach()

    return (ag.compile(step, fullgraph=True) if compiles else step), model


@pytest.mark.parametrize(("batch", "sizes", "residual"), [
    (8, (784, 64, 48, 3), False), (64, (2, 33, 17, 4), True), (256, (2, 64, 64, 2), True), (5, (3, 2, 2), False),
    (2, (700, 600, 2), False),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
def test_steps_have_the_bits_of_eager_code(batch, sizes, residual, dtype):
    seen = []
    for compiles in (False, True):
        step, model = training_step(sizes, nn.Tanh if residual else nn.ReLU, dtype, compiles, residual)
        data = [(ag.randn(batch, sizes[0], dtype=dtype), ag.randn(batch, sizes[-1], dtype=dtype)) for _ in range(8)]
        losses = [step(*pair).item() for pair in data]
        grads = [p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None]
        seen.append((losses, grads, [p.detach().numpy().tobytes() for p in model.parameters()]))
    count, text = runs_in(step)
    assert count >= 1, text
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("batch", "classes"), [(8, 10), (40, 9), (5, 3), (64, 100), (100, 3)])
@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
def test_a_cross_entropy_is_part_of_a_run(batch, classes, dtype):
    """Of three classes, whose probabilities are summed otherwise, it is not; unusual classes lead to the lines."""
    seen, ordinary = [], np.arange(batch) * 7 % classes
    ignored, wrong = np.where(ordinary == 1, -100, ordinary), np.where(ordinary == 1, classes, ordinary)
    for compiles in (False, True):
        ag.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, classes)).to(dtype)
        update = optim.SGD(model.parameters(), lr=0.1)

        def step(x, y, model=model, update=update):
            update.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            update.step()
            return loss.detach()

        run = ag.compile(step, fullgraph=True) if compiles else step
        losses = []
        for y in (*[ordinary] * 6, ignored, ordinary, wrong, ordinary):
            if compiles and y is ignored and (p := programs_of(run)[0])._has_runs:
                p._plain.__globals__["frames"].clear()  # as while another call runs the lines
            try:
                losses.append(run(ag.randn(batch, 6, dtype=dtype), ag.tensor(y)).item())
            except IndexError as error:
                losses.append(str(error))
        seen.append((losses, [p.detach().numpy().tobytes() for p in model.parameters()]))
    assert seen[0] == seen[1]
    assert isinstance(losses[-2], str)
    assert run.counts.compiled >= 6
    text = runs_in(run)[1]
    assert len(re.findall(r"= cross_entropy\d+\(", text)) == (classes == 3 and batch == 100), text


def test_what_a_run_has_and_what_lies_between():
    """Products, sums, bias and groups are one call; `.grad`s are set behind it; reads of values end it."""
    step, _ = training_step((6, 5, 4), nn.ReLU, ag.float32, True)
    x, y = ag.randn(7, 6), ag.randn(7, 4)
    for _ in range(6):
        step(x, y)
    count, text = runs_in(step)
    lines = [line.strip() for line in text.splitlines()]
    assert count == 2, text
    calls = [i for i, line in enumerate(lines) if re.match(r"run\d+\(", line)]
    assert not any(".dot(" in line or re.match(r"group\d+\(", line) for line in lines)
    assert "mean" in "".join(lines[calls[0] : calls[1]])
    assert sum(line.startswith("set_grad") for line in lines[calls[1] :]) == 4
    with ag.profiler.count() as counted:
        step(x, y)
    assert sum(counted.matmuls.values()) == 5
    assert counted.launches["native"] >= 2


@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
def test_columns_are_operands_and_gradients(dtype):
    """Of arguments and of what the run makes; the gradient of a part is zeros with it."""
    w = ag.randn(4, 3, dtype=dtype, requires_grad=True)

    def step(x):
        w.grad = None
        y = (x @ w) * 2 + 1
        z = (y[:, 0] * x[:, 1]).sin() * y[:, -1] + x[..., 3] * 0.5
        (z * 2 + y[:, 1] * z).sum().backward()
        return z.detach() * 2 - y.detach()[:, 1] * 3, w.grad * 1

    compiled = ag.compile(step, fullgraph=True)
    for _ in range(7):
        x = ag.randn(9, 4, dtype=dtype)
        for got, want in zip(compiled(x), step(x), strict=True):
            assert np.array_equal(got.numpy(), want.numpy())
    count, text = runs_in(compiled)
    assert count, text
    assert not re.search(r"f_basic_index_backward\d", text), text


def test_results_are_new_in_each_call():
    w = ag.randn(6, 4)

    def f(x):
        y = (x @ w) * 2 + 1
        return y, (y @ w.T).tanh() * y.sum()

    compiled, x = ag.compile(f), ag.randn(5, 6)
    results = [compiled(x) for _ in range(7)]
    assert runs_in(compiled)[0] == 1, runs_in(compiled)[1]
    for pair in results:
        for got, want in zip(pair, f(x), strict=True):
            assert np.array_equal(got.numpy(), want.numpy())
    assert len({t.data_ptr() for pair in results for t in pair}) == 14


def test_operands_of_any_layout():
    """Arguments as they lie, with what NumPy copies first left to it; parameters that are written between the calls."""
    w = ag.randn(12, 8)
    wide, tall, row = ag.randn(12, 24), ag.randn(24, 12), ag.randn(1, 12)
    for x in (tall, wide.T, tall[::2], wide[:, ::2], row.expand(9, 12), tall[:1]):

        def f(x):
            return (((x @ w) * 3 - 1).relu() @ w.T).exp() * 0.5 + 1

        compiled = ag.compile(f)
        for _ in range(6):
            w.mul_(-0.5)
            assert np.array_equal(compiled(x).numpy(), f(x).numpy())


def test_memory_is_given_back_where_it_was():
    """Large arrays that die in the middle end a run, so the peak is that of the lines."""
    weights = [ag.randn(64, 64) for _ in range(6)]

    def f(x):
        for w in weights:
            x = (x @ w) * 0.5 + 0.1
        return x.sum()

    compiled, x = ag.compile(f), ag.randn(1024, 64)  # 256 KiB each
    for _ in range(6):
        got = compiled(x)
    assert np.array_equal(got.numpy(), f(x).numpy())
    assert not runs_in(compiled)[0]


def test_two_threads_and_calls_within_calls():
    """Each has memory of its own."""
    w = ag.randn(16, 16)
    compiled = ag.compile(lambda x: ((x @ w) * 2 + 1).tanh() @ w)
    x = ag.randn(8, 16)
    for _ in range(6):
        expected = compiled(x).numpy()
    p = programs_of(compiled)[0]
    assert runs_in(compiled)[0] == 1
    frames = p.run.__globals__["frames"]
    held = frames.pop()  # as while a call runs
    assert np.array_equal(compiled(x).numpy(), expected)
    for mine, other in zip(held, frames[-1], strict=True):  # but for constants and views of parameters
        assert isinstance(mine, np.ndarray)
        assert not np.may_share_memory(mine, other)
    frames.append(held)
    assert np.array_equal(compiled(x).numpy(), expected)
    assert len(frames) == 2


def test_operands_with_negative_strides():
    x, row = ag.randn(8, 16), ag.from_numpy(np.linspace(0, 1, 16, dtype=np.float32)[::-1])
    backwards, w = ag.from_numpy(np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)[::-1, ::-1]), ag.randn(16, 16)

    def f(x, row, backwards):
        return ((x @ w) * row + backwards).tanh() @ w

    compiled = ag.compile(f)
    for _ in range(6):
        assert np.array_equal(compiled(x, row, backwards).numpy(), f(x, row, backwards).numpy())
    assert runs_in(compiled)[0] == 1


def test_without_machine_code_the_lines_stay(monkeypatch):
    monkeypatch.setattr(runs, "are_there", lambda: False)
    w = ag.randn(16, 16)
    compiled = ag.compile(lambda x: ((x @ w) * 2 + 1).tanh() @ w)
    for _ in range(6):
        compiled(ag.ones(8, 16))
    assert not runs_in(compiled)[0]


def test_products_that_differ_from_dot_are_left_to_it(monkeypatch):
    monkeypatch.setattr(native_runs.runs, "products_are_equal", lambda *shape: False)
    w = ag.randn(16, 16)
    compiled = ag.compile(lambda x: ((x @ w) * 2 + 1).tanh() @ w)
    for _ in range(6):
        compiled(ag.ones(8, 16))
    count, text = runs_in(compiled)
    assert not count
    assert text.count(".dot(") == 2


# ---- the update behind a run -----------------------------------------------------------------------------


def replaced_data(model, update, extra):
    for p in model.parameters():
        p.data = p.data.clone() * 0.5


def columns(model, update, extra):
    model[0].weight.data = model[0].weight.data.T.contiguous().T


def strided(model, update, extra):
    wide = ag.ones(4, 20)
    model[2].weight.data = wide[:, ::4]


def assigned(model, update, extra):
    model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()}, assign=True)


def options(model, update, extra):
    update.param_groups[0].update(lr=ag.tensor(0.02, dtype=ag.float64), weight_decay=0.1, maximize=True)


def other_state(model, update, extra):
    update.param_groups[0].update({"amsgrad": True} if "amsgrad" in update.defaults else {"momentum": 0.5})


def loaded(model, update, extra):
    saved = update.state_dict()
    for state in saved["state"].values():
        state.update(step=ag.tensor(30.0))
    update.load_state_dict(saved)


def one_fresh(model, update, extra):
    update.state.pop(model[0].bias, None)


def read_count(model, update, extra):
    assert all(state["step"] == 7 for state in update.state.values() if "step" in state)


def group_added(model, update, extra):
    update.add_param_group({"params": [extra], "lr": 0.3})


def parameter_added(model, update, extra):
    update.param_groups[0]["params"].append(extra)


def frozen(model, update, extra):
    model[2].weight.requires_grad_(False)
    model[2].weight.grad = None


def wrong_gradient(model, update, extra):
    update.param_groups[0]["params"].append(extra)
    extra.data = ag.ones(3)


CHANGES = (replaced_data, columns, strided, assigned, options, other_state, loaded, one_fresh, read_count, group_added,
           parameter_added, frozen, wrong_gradient)  # fmt: skip


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.NAdam])
def test_what_changes_between_updates_is_seen(cls, change, to_none):
    """By a step whose update is one call of machine code, as by an eager one without it."""
    seen, ways = [], []
    for compiles in (False, True):
        ag.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
        extra = ag.ones(2, requires_grad=True)
        update, log = cls(model.parameters(), lr=0.05), []

        def step(x, model=model, update=update):
            (model if to_none else update).zero_grad(to_none)
            loss = (model(x) ** 2).mean()
            loss.backward()
            update.step()
            return loss.detach()

        run = ag.compile(step) if compiles else step
        for i in range(14):
            if i == 7:
                ways.append(update._ag_in_one_call)
                extra.grad = ag.ones(2)
                change(model, update, extra)
            try:
                log.append(run(ag.randn(7, 6)).item())
            except RuntimeError as error:
                log.append(str(error))
            if not compiles:
                update._ag_in_one_call = False
            listed = [*model.parameters(), extra]
            states = [t for p in listed for t in update.state.get(p, {}).values()]
            log += [t.detach().numpy().tobytes() if isinstance(t, ag.Tensor) else t for t in (*listed, *states)]
            log += [p._version for p in listed]
        seen.append(log)
    assert ways == [False, True]
    assert seen[0] == seen[1]
    assert change is not wrong_gradient or any("another shape" in str(x) for x in seen[0])


@pytest.mark.parametrize("comes", ["before", "behind"])
def test_an_interrupt_leaves_a_step_that_is_done_or_not_begun(comes, monkeypatch):
    step, model = training_step((6, 5, 4), nn.ReLU, ag.float32, True)
    update = step._fn.__closure__[[*step._fn.__code__.co_freevars].index("update")].cell_contents
    x, y = ag.randn(7, 6), ag.randn(7, 4)
    for _ in range(7):
        step(x, y)
    plain = ListKernel.__call__

    def interrupted(*given):
        if comes == "behind":
            plain(*given)
        raise KeyboardInterrupt

    before = [p.detach().numpy().copy() for p in model.parameters()]
    monkeypatch.setattr(ListKernel, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(x, y)
    moved = [not np.array_equal(a, p.detach().numpy()) for a, p in zip(before, model.parameters(), strict=True)]
    assert any(moved) == (comes == "behind")
    assert {update.state[p]["step"].item() for p in model.parameters()} == {7 + (comes == "behind")}


@pytest.mark.parametrize(("cls", "most"), [(optim.SGD, 62), (optim.Adam, 75)])
def test_what_a_compiled_step_costs(cls, most):
    """The Python functions that a step enters, three for each parameter among them, with Adam four."""
    counts = []
    for layers in (3, 5):
        model = nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(6, 6), nn.ReLU())][:-1])
        update, loss_of = cls(model.parameters(), lr=0.01), nn.CrossEntropyLoss()

        def step(x, y, model=model, update=update, loss_of=loss_of):
            update.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            update.step()
            return loss

        run, x, y = ag.compile(step), ag.randn(4, 6), ag.tensor([0, 1, 2, 5])
        for _ in range(8):
            run(x, y)
        count, entered = count_of_calls(run, x, y)
        counts.append(count)
    assert counts[0] <= most, entered
    assert counts[1] - counts[0] <= 4 * (3 + (cls is optim.Adam)), entered
