"""Layers of compiled second derivatives by blocks of rows: the bits of eager code, and what joins a run."""

import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from compiled_groups import programs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from row_run_cases import (
    ACTIVATIONS,
    MATRIX,
    ROWS,
    STREAM,
    WIDTH,
    arrays,
    chain,
    jet,
    layers_of,
    network,
    numbers,
    same,
    second,
)

import autograd_gpu as ag
from autograd_gpu import func, nn, optim
from autograd_gpu.backend.cpu import large_products, pool, rows
from autograd_gpu.backend.formulas.native import layers, packed, runs, switch
from autograd_gpu.compilation import program, row_instructions, row_runs
from autograd_gpu.nn.functional import linear
from autograd_gpu.ops import layer_jets

pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("written")]

# ---- second derivatives of networks --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [*ACTIVATIONS])
def test_bits_of_eager_code_and_of_lines(written, activation, bias, dtype):
    """Weights of different widths, and more rows than a multiple of the blocks. Without groups there are no runs."""
    f, x = second(network((2, 8, 17, 30, 1), activation, dtype, bias)), ag.randn(50, 2, dtype=dtype, device="cpu")
    same(f, x)
    has_code = (bias or activation != "tanh") and not (activation == "gelu" and dtype == ag.float64)
    assert bool(written) == has_code  # how many layers join depends on BLAS: of odd widths not all have the same bits
    count = len(written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "row_run_at", lambda *given: None)
        same(f, x)
    assert len(written) == count


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize(("height", "blocks"), [(1, 0), (2, 1), (11, 1), (12, 1), (50, 5), (96, 8)])
def test_any_number_of_layers_and_rows(written, depth, height, blocks):
    """BLAS has other functions for one row."""
    same(second(network((3, *[WIDTH] * depth, 1))), ag.randn(height, 3, device="cpu"))
    assert [run.layers for run in written] == [depth] * bool(blocks)
    assert [len(run.windows) for run in written] == [blocks] * bool(blocks)


def test_a_last_block_of_one_row_has_products_in_lines(written):
    same(second(network((3, WIDTH, WIDTH, 1))), ag.randn(13, 3, device="cpu"))
    assert sum(run.layers for run in written) == 1


@pytest.mark.parametrize("form", [func.hessian, func.laplacian, func.hessian_diagonal])
@pytest.mark.parametrize("outputs", [1, 3])
def test_forms_and_several_outputs(written, form, outputs):
    net, x = network((2, WIDTH, WIDTH, outputs)), ag.randn(50, 2, device="cpu")
    same(second(net, form), x)
    same(second(lambda row: (net(row), net(row) * 2), form, has_aux=True), x)
    assert [run.layers for run in written] == [2, 2]


def test_a_training_step_has_the_forward_of_all_layers_in_one_run(written):
    """The gradients of a layer are new memory, so nothing that they are computed from may share memory with them."""
    net = network((2, WIDTH, WIDTH, 1))

    def f(x):
        laplacian = second(net, func.laplacian)(x)
        return ag.autograd.grad((laplacian**2).sum(), list(net.parameters()), allow_unused=True)[:-1]

    same(f, ag.randn(50, 2, device="cpu"))
    assert (written[0].layers, written[0].products) == (2, 2)


@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
@pytest.mark.parametrize("activation", ["tanh", "silu"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_adjoints_are_pulled_back(written, activation, outputs, dtype):
    """And the gradients of what they give, of which the layers are a part."""
    net = network((2, WIDTH, 20, WIDTH, outputs), activation, dtype)

    def f(x):
        hessian = second(net, method="pull")(x)
        return hessian, *ag.autograd.grad((hessian**2).sum(), list(net.parameters()), allow_unused=True)[:-1]

    same(f, ag.randn(50, 2, dtype=dtype, device="cpu"))
    assert max(run.layers for run in written) >= 5  # on the way forward, and back


@pytest.mark.parametrize("packs", [False, True])
def test_the_lines_of_a_run_are_shown(written, monkeypatch, packs):
    """In the order of the instructions, above the call; then the weights that are packed. Copies stand before it."""
    if not packs:
        monkeypatch.setattr(row_instructions, "packed_ends", lambda *given, **options: None)
    net = network((2, WIDTH, WIDTH, 1))
    compiled = same(second(net), ag.randn(50, 2, device="cpu"))
    text = compiled.print_readable(print_output=False).split("def compiled_backward")[0]
    lines = [line.strip() for line in text.splitlines()]
    (call,) = [i for i, line in enumerate(lines) if re.match(r"run\d+\(run\d+_places, ", line)]
    shown = [line for line in lines[:call] if line.startswith("# ") and " = " in line]
    assert [re.search(r"= (linear|tanh|layer_jet)\(", line)[1] for line in shown] == [
        "linear", "tanh", "linear", "layer_jet", "tanh", "layer_jet"]  # fmt: skip
    copies = sum(line.startswith("copyto") for line in lines[:call])
    assert copies + len(written[0].packs) == 2
    assert packs or copies == 2
    assert any(line.startswith("# packed before: param") for line in lines[:call]) == bool(written[0].packs)
    assert "chained" not in text
    assert "f_layer_jet" not in text
    assert len(written) == 1


@pytest.mark.parametrize("reason", ["no LLVM", "off", "other bits", "no code", "large", "no memory"])
def test_the_lines_stay_otherwise(written, monkeypatch, reason):
    if reason == "no LLVM":
        monkeypatch.setattr(runs, "are_there", lambda: False)
    if reason == "off":
        monkeypatch.setattr(switch.SETTING, "on", False)
    if reason == "other bits":
        monkeypatch.setattr(row_instructions, "are_equal", lambda *given: False)
        monkeypatch.setattr(row_instructions, "packed_ends", lambda *given, **options: None)
    if reason == "no code":
        monkeypatch.setattr(row_instructions, "push_code", lambda *given: None)
    if reason == "large":
        monkeypatch.setattr(layer_jets, "LARGE_BYTES", 1)
    if reason == "no memory":
        monkeypatch.setattr(row_runs, "most_bytes", lambda program: 1)
    weights = layers_of(WIDTH, WIDTH, WIDTH)
    compiled = same(lambda *given: chain(*given, weights), *numbers(MATRIX, STREAM))
    assert not written
    assert len(re.findall(r"f_layer_jet\d+\(", programs_of(compiled)[0].text)) == 2


def test_memory_is_that_of_the_order_of_instructions(written, monkeypatch):
    """Dead memory of the run is taken again, and a run ends before it needs more than eager code would."""
    weights = layers_of(*[WIDTH] * 6)
    same(lambda *given: chain(*given, weights), *numbers(MATRIX, STREAM))
    assert [run.layers for run in written] == [5]
    assert len(written[0].made) < 2 * 5  # a layer makes two streams
    monkeypatch.setattr(row_runs, "most_bytes", lambda program: written[0].nbytes - 1)
    same(lambda *given: chain(*given, weights), *numbers(MATRIX, STREAM))
    assert sum(run.layers for run in written) < 10


@pytest.mark.parametrize("depth", [2, 6])
@pytest.mark.parametrize("form", [func.laplacian, func.hessian, None], ids=["laplacian", "hessian", "value"])
def test_a_training_step_takes_little_more_memory_than_its_lines(monkeypatch, form, depth):
    """At its peak, beside what it keeps between calls: the gradients of layers wait for the products behind a run."""
    net, x = network((2, *[64] * depth, 1)), ag.randn(1500, 2, device="cpu")

    def step(x):
        loss = (net(x) ** 2).mean()
        if form is not None:
            loss = loss + (second(net, form)(x) ** 2).mean()
        return ag.autograd.grad(loss, list(net.parameters()), allow_unused=True)

    monkeypatch.setattr(pool, "MAX_FREE", 0)  # what is given back is seen
    peaks = []
    for runs_at in (program.row_run_at, lambda *given: None):
        monkeypatch.setattr(program, "row_run_at", runs_at)
        compiled = ag.compile(step)
        for _ in range(4):
            compiled(x)
        tracemalloc.start()
        compiled(x)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        compiled(x)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
    assert peaks[0] < 1.1 * peaks[1]


def test_training_steps_read_new_weights(written):
    """The copies of weights are made anew by each call, behind the update of the call before."""
    seen = []
    for compiles in (False, True):
        net = network((2, WIDTH, 2 * WIDTH, 1))
        update = optim.Adam(net.parameters(), lr=1e-2)

        def step(x, net=net, update=update):
            update.zero_grad()
            laplacian, value = second(lambda row: (net(row), net(row)), func.laplacian, has_aux=True)(x)
            loss = (laplacian**2).mean() + (value**2).mean()
            loss.backward()
            update.step()
            return loss.detach()

        run = ag.compile(step, fullgraph=True) if compiles else step
        losses = [run(ag.randn(50, 2, device="cpu", generator=ag.Generator().manual_seed(k))).item() for k in range(7)]
        seen.append((losses, [p.detach().numpy().tobytes() for p in net.parameters()]))
    assert seen[0] == seen[1]
    assert written[0].layers == 2


def test_weights_that_are_written_between_calls_and_within(written):
    weights = layers_of(WIDTH, WIDTH, WIDTH)

    def f(x, stream):
        stream = chain(x, stream, weights[:1])
        weights[1][0].mul_(0.5)
        return chain(x, stream, weights[1:])

    given = numbers(MATRIX, STREAM)
    compiled, starts = ag.compile(f), [weight.clone() for weight, _ in weights]
    for factor in (1.0, 2.0, 0.5, -1.0, 3.0):
        results = []
        for call in (f, compiled):
            for (weight, _), start in zip(weights, starts, strict=True):
                weight.copy_(start * factor)
            results.append(call(*given).numpy())
        np.testing.assert_array_equal(*results)
    assert sum(run.layers for run in written) == 2
    assert compiled.counts.compiled == 3


def test_products_of_other_heights_have_parts_of_k_of_their_own(written, monkeypatch):
    """Of one weight, which is packed once: OpenBLAS sums small products as a whole, and others by parts of k."""
    if packed.tile_of(np.dtype(np.float32)) is None:
        pytest.skip("no fused multiply-adds")
    ends = {ROWS: (WIDTH,), 3 * ROWS: (WIDTH // 2, WIDTH)}
    monkeypatch.setattr(row_instructions, "packed_ends", lambda rows, *given, **options: ends[rows])
    monkeypatch.setattr(row_runs, "most_bytes", lambda program: 1 << 30)
    weight, x, stream, stack = numbers((WIDTH, WIDTH), MATRIX, STREAM, (3, ROWS, WIDTH))

    def f(x, stream, stack):
        return jet((linear(x, weight) * 2 + 1).tanh(), stream, weight), linear(stack, weight)

    compiled = ag.compile(f)
    for _ in range(4):
        _, result = compiled(x, stream, stack)
    assert [len(run.packs) for run in written] == [1]
    expected = packed.computed(stack.numpy().reshape(-1, WIDTH), weight.numpy().T, ends[3 * ROWS])
    np.testing.assert_array_equal(result.numpy().reshape(-1, WIDTH), expected)


def test_threads_share_a_program(written):
    """Each call has memory of its own, and so has each task."""
    weights = layers_of(WIDTH, 2 * WIDTH, WIDTH)
    given = [numbers(MATRIX, STREAM) for _ in range(4)]
    compiled = same(lambda *pair: chain(*pair, weights), *given[0])
    (replayed,) = programs_of(compiled)
    expected = [chain(*pair, weights).numpy() for pair in given]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for (result,), other in zip(pool.map(lambda pair: replayed(*pair), given), expected, strict=True):
                np.testing.assert_array_equal(result, other)
    assert len(written[0].tasks) == 4


def test_a_call_gets_a_limited_number_of_arrays(written):
    """Each layer takes two, which the backward keeps."""
    weights = layers_of(*[3] * 40)
    saved, stream = numbers((24, 3), (1, 24, 3))
    same(lambda saved, stream: chain(saved, stream, weights), saved, stream.requires_grad_())
    assert len(written) > 1
    assert sum(run.layers for run in written) >= 38  # one may be a line between two runs
    assert max(len(run.arrays) for run in written) > runs.MOST_ARRAYS - 3


# ---- products without layers ---------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", "silu"])
@pytest.mark.parametrize("dtype", [ag.float32, ag.float64])
def test_products_that_cores_share_are_a_run(written, activation, dtype):
    """As many as follow each other: cores wait for each other once. Other widths in the same memory end it."""
    x = ag.randn(ROWS, 3, dtype=dtype, device="cpu")
    with ag.no_grad():
        same(network((3, WIDTH, WIDTH, WIDTH, WIDTH), activation, dtype), x)
        assert [(run.layers, run.products, len(run.tasks)) for run in written] == [(0, 4, 4)]
        same(network((3, 30, 20, 10, 4), activation, dtype), x)
    assert all(run.products < 4 for run in written[1:])


@pytest.mark.parametrize(("least", "count"), [(0, 4), (1 << 22, 1)])
def test_cores_share_many_small_layers(written, monkeypatch, least, count):
    """As eager code does, in whose NumPy code each of them has one block."""
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(row_runs, "SHARED_BYTES", least)
    same(second(network((2, WIDTH, WIDTH, WIDTH, 1)), method="pull"), ag.randn(ROWS, 2, device="cpu"))
    assert [len(run.tasks) for run in written] == [count]


def test_products_that_no_core_shares_are_not_looked_through(written, monkeypatch):
    """A program of a thousand products would take seconds to write."""
    monkeypatch.setattr(large_products, "are_shared", lambda: False)
    taken, takes = [], row_runs.RowRun._takes
    monkeypatch.setattr(row_runs.RowRun, "_takes", lambda self, *given: (taken.append(given), takes(self, *given))[1])
    same(network((3, *[WIDTH] * 4)), ag.randn(24, 3, device="cpu"))
    assert not taken


@pytest.mark.parametrize("reason", ["one product", "small", "one core"])
def test_other_products_are_no_run_of_rows(written, monkeypatch, reason):
    if reason == "small":
        monkeypatch.setattr(layer_jets, "LEAST_BYTES", 1 << 20)
    if reason == "one core":
        monkeypatch.setattr(large_products, "are_shared", lambda: False)
    weights, x = layers_of(*((3, 30) if reason == "one product" else (3, 30, 20, 10))), ag.randn(ROWS, 3, device="cpu")

    def f(x):
        for weight, bias in weights:
            x = (linear(x, weight) * 2 + bias).tanh()
        return x

    same(f, x)
    assert not written


def test_a_matrix_times_itself_ends_a_run(written):
    """NumPy computes x @ x.T by another function of BLAS."""
    weights, x = layers_of(3, ROWS, 20), ag.randn(ROWS, 3, device="cpu")

    def f(x):
        for weight, bias in weights[:1]:
            x = (linear(x, weight) * 2 + bias).tanh()
        x = (linear(x, x) * 0.1 + 1).tanh()
        return (linear(x, weights[1][0]) * 2 + weights[1][1]).tanh()

    same(f, x)
    assert all(run.products < 2 for run in written)


# ---- what joins a run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_streams_that_are_the_same_in_all_rows(written, shared):
    """Their product is computed once, before the run."""
    weights = layers_of(WIDTH, WIDTH, WIDTH)
    compiled = same(lambda *given: chain(*given, weights), *numbers(MATRIX, (1, 1 if shared else ROWS, WIDTH)))
    assert [run.layers for run in written] == [2]
    assert len(re.findall(r"= matmul\d+\(", programs_of(compiled)[0].text)) == shared


def parts_of(tensor):
    """Operands of a group: numbers of each row, numbers of each column, and one number."""
    return tensor[:, :1], tensor[:1], tensor[:1, :1]


@pytest.mark.parametrize("width", [0, 1, 2, WIDTH, 700])
def test_operands_of_groups(written, width):
    """Of more columns than are repeated for a call, of one, and of none."""
    first, second = layers_of(WIDTH, max(width, 2), WIDTH)

    def f(x, stream, y, of_rows, column, row, number, vector):
        saved = (y * column + row * number + vector).tanh(), (of_rows * 2 + 1).tanh()
        stream = chain(x, stream, [first])
        return chain((linear(x, first[0]) * 2 + 1).tanh(), stream, [second]), *saved

    given = numbers(MATRIX, STREAM, (ROWS, width), (ROWS,))
    same(f, *given, *parts_of(*numbers((ROWS, width))), *numbers((width,)))
    assert sum(run.layers for run in written) == 2


LAYOUTS = {
    "columns": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2), "every second": lambda t: t[..., ::2],
    "one row": lambda t: t[..., :1, :].expand(*t.shape), "backwards": lambda t: ag.from_numpy(t.numpy()[..., ::-1, :]),
    "a part": lambda t: t[..., 1:-1, :],
}  # fmt: skip


@pytest.mark.parametrize("layout", [*LAYOUTS])
@pytest.mark.parametrize("which", ["x", "stream", "weight", "bias", "operand"])
def test_layouts(written, layout, which):
    """Of arguments, also of calls behind those with other layouts, and of weights."""
    of = LAYOUTS[layout]
    rows_, width = ROWS - 2 * (layout == "a part" and which != "weight"), WIDTH
    k = WIDTH - 2 * (layout == "every second") * 0
    x, stream, operand = numbers((rows_, k), (1, rows_, k), (rows_, width))
    weight, bias = numbers((width, k), (width,))
    wide = {"x": (ROWS, k), "stream": (1, ROWS, k), "operand": (ROWS, width), "weight": (width, k)}
    if which != "bias":
        shape = list(wide[which])
        shape[-1] *= 2 if layout == "every second" else 1
        shape[-2] += 2 if layout == "a part" and which == "weight" else 0
        laid = of(*numbers(tuple(shape)))
    else:
        laid = numbers((2 * width,))[0][::2]
    given = {"x": x, "stream": stream, "operand": operand, "weight": weight, "bias": bias, which: laid}

    def f(x, stream, operand, weight, bias):
        saved = (linear(x, weight) + bias).tanh() * operand
        return jet(saved, stream, weight, bias, "silu")

    compiled = same(f, *given.values())
    dense = [t.contiguous() for t in given.values()]
    for _ in range(4):
        np.testing.assert_array_equal(compiled(*dense).numpy(), f(*dense).numpy())
    assert written


# ---- what stands between -------------------------------------------------------------------------------


def before_it(x, stream, y):
    return y.cumsum(0)


def behind_it(x, stream, y):
    return stream.cumsum(1)


def chained_behind(x, stream, y):
    return (stream.cumsum(1)[0] + y).sum(0) * 2


def dropped(x, stream, y):
    return nn.functional.dropout(y)


@pytest.mark.parametrize(("between", "layers_of_runs"), [
    (before_it, [2]), (behind_it, [2]), (chained_behind, [1, 1]), (dropped, [1, 1]),
])  # fmt: skip
def test_instructions_between_layers(written, between, layers_of_runs):
    """They run before or behind; a draw of random numbers ends the run."""
    first, second = layers_of(WIDTH, WIDTH, WIDTH)

    def f(x, stream, y):
        stream = chain(x, stream, [first])
        other = between(x, stream, y)
        return chain(x, stream, [second]), other

    given, results = numbers(MATRIX, STREAM, MATRIX), []
    compiled = ag.compile(f)
    for call in (f, compiled):
        ag.manual_seed(3)
        results.append([array for _ in range(5) for array in arrays(call(*given))])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert [run.layers for run in written] == layers_of_runs


@pytest.mark.parametrize("target", ["argument", "outside", "saved", "stream"])
def test_writes_end_a_run(written, target):
    """To memory that the layers read, before or behind them."""
    first, second = layers_of(WIDTH, WIDTH, WIDTH)
    outside = ag.zeros(ROWS, WIDTH, device="cpu")

    def f(x, stream):
        saved = (linear(x, first[0]) + first[1]).tanh()
        stream = jet(saved, stream, first[0])
        written_to = {"argument": x, "outside": outside, "saved": saved, "stream": stream}[target]
        written_to.mul_(0.5).add_(0.25)
        return chain(x + outside, stream, [second]), saved * 2 + 1

    given = numbers(MATRIX, STREAM)
    compiled, results = ag.compile(f), []
    for call in (f, compiled):
        outside.zero_()
        x, stream = (t.clone() for t in given)
        results.append([])
        for _ in range(5):
            results[-1] += [array.copy() for array in (*arrays(call(x, stream)), x.numpy(), outside.numpy())]
    for mine, other in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert [run.layers for run in written] == [1, 1]


@pytest.mark.parametrize("kept", [False, True])
def test_a_head_in_the_middle(written, kept):
    """A prediction that a run leaves out, since BLAS has another function for one column. It runs behind the run if
    what it reads is in no memory of the program, which the run might take."""
    first, second = layers_of(WIDTH, WIDTH, WIDTH)
    head, shift = numbers((1, WIDTH), (1,))

    def f(x, stream):
        saved = (linear(x, first[0]) + first[1]).tanh()
        stream = jet(saved, stream, first[0])
        prediction = linear(saved, head, shift)
        return chain(saved, stream, [second]), prediction, (prediction**2).mean(), *[saved] * kept

    same(f, *numbers(MATRIX, STREAM))
    assert [run.layers for run in written] == ([2] if kept else [1, 1])


def test_networks_beside_each_other(written):
    """Of other heights they have runs of their own."""
    net, x, y = network((2, WIDTH, WIDTH, 1)), ag.randn(50, 2, device="cpu"), ag.randn(40, 2, device="cpu")
    same(lambda x, y: (second(net)(x), second(net)(y)), x, y)
    assert [run.layers for run in written] == [2, 2]
    assert [run.height for run in written] == [50, 40]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_chains(data):
    """Widths, depth, activations, batch, cores, tasks and blocks; with what stands between."""
    draw = data.draw
    sizes = draw(st.lists(st.integers(1, 40), min_size=2, max_size=5))
    height, dtype = draw(st.integers(0, 70)), draw(st.sampled_from([ag.float32, ag.float64]))
    weights = layers_of(*sizes, dtype=dtype)
    kinds = [draw(st.sampled_from([*ACTIVATIONS, "sine"])) for _ in weights]
    between = [draw(st.sampled_from(["", "behind", "before", "group", "slot", "read"])) for _ in weights]

    def f(x, stream, y):
        others = []
        for (weight, bias), kind, beside in zip(weights, kinds, between, strict=True):
            z = linear(x, weight)
            x = (ag.sin if kind == "sine" else getattr(nn.functional, kind))(z + bias)
            saved, shift = (x, None) if kind in ("tanh", "sigmoid") else (z, bias)
            stream = jet(saved, stream, weight, shift, kind)
            others += {"": [], "behind": [stream.cumsum(1)], "before": [y.cumsum(0)], "group": [(x * y + 1).exp()],
                       "slot": [(stream[0, :9] * 2 + 1).tanh().sum(0)], "read": [x.T.cumsum(0)]}[beside]
        return stream, *others

    shared = draw(st.booleans())
    given_ = numbers((height, sizes[0]), (1, 1 if shared else height, sizes[0]), (height, 1), dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BLOCK_BYTES", draw(st.sampled_from([1, 1 << 12, 1 << 16])))
        patch.setattr(layers, "TASKS_PER_CORE", draw(st.integers(1, 3)))
        patch.setattr(layer_jets, "LEAST_BYTES", draw(st.sampled_from([1, 1 << 14])))
        patch.setattr(layer_jets, "MOST_TURNED", draw(st.sampled_from([0, 300, 1 << 14])))
        cores = draw(st.integers(1, 3))
        patch.setattr(rows, "cores", lambda: cores)
        same(f, *given_)


# ---- memory --------------------------------------------------------------------------------------------

def test_memory_that_is_read_behind_a_run_is_not_written_over(written):
    """A group would put its result over its operand, which an instruction behind the run reads."""
    (weight,) = numbers((WIDTH, WIDTH))

    def f(x, stream):
        saved = linear(x, weight)
        stream = jet(saved, stream, weight)
        sums = saved.cumsum(0)
        return jet((saved * 3).tanh() * 0.5, stream, weight), sums

    same(f, *numbers((2100, WIDTH), (1, 2100, WIDTH)))
    assert [run.layers for run in written] == [1, 1]


def test_views_that_are_read_behind_a_run(written):
    """The view of a value in memory of the program, which a later instruction of the run would take."""
    w0, w1, w2, w3 = numbers(*[(WIDTH, WIDTH)] * 4)

    def f(x, stream):
        stream = jet((linear(x, w0) + 1).tanh(), stream, w0)
        u = linear(x, w1)
        squares, sums = (u * u).exp(), u.T.cumsum(0)
        saved = (linear(x, w2) * 2 + 1).tanh()
        other = jet(saved, stream, w0)
        saved = (linear(saved, w3) * 2 + 1).tanh()
        return jet(saved, other, w0), sums, jet(squares, stream, w0)

    same(f, *numbers(MATRIX, STREAM))
    assert sum(run.layers for run in written) == 4


def test_results_behind_a_run_go_to_memory_that_it_leaves_alone(written):
    w0, w1 = numbers(*[(WIDTH, WIDTH)] * 2)

    def f(x, stream, saved):
        stream = jet((linear(x, w0) * 2 + 1).tanh(), stream, w0)
        part = (stream[0, :50] * 2 + 1).tanh().sum(0)
        u = linear(x, w1)
        return jet(saved, stream, w0), part.exp(), u.cumsum(0)

    same(f, *numbers(MATRIX, STREAM, MATRIX))
    assert sum(run.layers for run in written) == 2


@pytest.mark.parametrize("sizes", [(ROWS, WIDTH), (192, 128)], ids=["turned", "read where it lies"])
def test_a_weight_that_the_run_makes_is_complete_before_it_is_read(written, sizes):
    """It is an output of a product; more elements than are turned are read by every block where they lie."""
    first, second = numbers((sizes[1], sizes[1]), sizes)

    def f(x, stream):
        made = linear(x, first)
        return jet((linear(x, made) * 0.1 + 1).tanh(), stream, second)

    same(f, *numbers(sizes, (1, *sizes)))
    assert len(written) == 1


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("height", "k"), [(ROWS, WIDTH), (256, 200)], ids=["memory of the program", "large"])
def test_a_weight_stays_until_the_last_block_has_read_it(written, monkeypatch, height, k, before):
    """A later instruction of the run would take its memory: that of the program, or that of an operand."""
    monkeypatch.setattr(layer_jets, "MOST_TURNED", 0)  # weights are read where they lie
    square, weight, back = numbers((k, k), (height, k), (k, height))
    total = ag.zeros((), device="cpu")

    def f(x, stream, y):
        made = (y * 2 + 1).sin() * 0.1
        if before:
            total.add_(made.sum())  # another run begins
        stream = jet((linear(x, square) * 0.3 + 1).tanh(), stream, square)
        saved = (linear(x, made) * 0.1 + 1).tanh()
        other = linear(saved, back)
        other = ((other if height == ROWS else made * other) * 0.5 + 1).tanh()
        return jet(saved, stream, weight), jet(other, stream, square)

    same(f, *numbers((height, k), (1, height, k), (height, k)))
    assert written


def test_views_of_memory_of_the_program_are_read_before_it_is_taken(written):
    """Rows of a view are other rows of the memory, which a block of a later instruction would overwrite."""
    w0, w1 = numbers(*[(WIDTH, WIDTH)] * 2)
    counter = ag.zeros(3, device="cpu")

    def f(x, stream, y, saved):
        u = (y * 2 + 1).sin().T
        counter.add_(1)
        stream = jet((linear(x, w0) + 1).tanh() * u, stream, w0)
        z = linear(x, w1)
        return jet(saved, stream, w0), z.cumsum(0)

    same(f, *numbers(MATRIX, STREAM, (WIDTH, ROWS), MATRIX))
    assert written


def test_two_dtypes_in_a_run_have_memory_of_their_own(written):
    """Rows that are repeated, of as many elements of 4 bytes as of 8."""
    single, double = numbers((WIDTH, WIDTH), (WIDTH,)), numbers((WIDTH, WIDTH), (WIDTH,), dtype=ag.float64)

    def f(x, stream, x64, stream64):
        z64, z = linear(x64, double[0]), linear(x, single[0])
        after64 = jet(z64, stream64, *double, "silu")
        return after64, jet(z, stream, *single, "silu"), z64, z, (z * 2 + 1).tanh(), (z64 * 2 + 1).tanh()

    same(f, *numbers(MATRIX, STREAM), *numbers(MATRIX, STREAM, dtype=ag.float64))
    assert [run.layers for run in written] == [2]


def test_scratch_of_an_instruction_beside_a_run_is_left_where_it_is(written):
    w0, w1, large = numbers((WIDTH, WIDTH), (WIDTH, WIDTH), (300, 100))

    def f(x, stream, few, saved):
        stream = jet((linear(x, w0) + 1).tanh(), stream, w0)
        other = few @ large
        u = linear(x, w1)
        return jet(saved, stream, w1), other.cumsum(0), u.cumsum(0)

    same(f, *numbers(MATRIX, STREAM, (2, 300), MATRIX))
    assert written


def test_an_instruction_before_a_run_writes_over_nothing_that_the_run_reads(written):
    """Its operands are there already, and it is the last that reads one of them."""
    w0, w1 = numbers(*[(WIDTH, WIDTH)] * 2)
    total = ag.zeros((), device="cpu")

    def f(x, stream, y):
        u = (x * 2 + 1).sin()
        total.add_(u.sum())
        stream = jet((linear(x, w0) + 1).tanh() * u, stream, w0)
        other = (y.cumsum(1).T * u + 3).tanh()
        return jet((linear(x, w1) + 1).tanh(), stream, w1), other.cumsum(0)

    same(f, *numbers((2100, WIDTH), (1, 2100, WIDTH), (WIDTH, 2100)))
    assert written


def test_results_behind_a_run_may_be_read_behind_it(written):
    (weight,) = numbers((WIDTH, WIDTH))

    def f(x, stream, saved):
        stream = jet((linear(x, weight) * 2 + 1).tanh(), stream, weight)
        part = (stream[0, :50] * 2 + 1).tanh().sum(0)
        return jet(saved, stream, weight), part.exp()

    same(f, *numbers(MATRIX, STREAM, MATRIX))
    assert [run.layers for run in written] == [2]


@pytest.mark.parametrize("other", ["height", "half", "reshaped", "no columns"])
def test_layers_that_do_not_fit_stay_lines(written, other):
    """Of a matrix of other rows, of half types, of one whose strides may be others in another call, of no columns."""
    weights, stream_of_all = layers_of(WIDTH, WIDTH, WIDTH), numbers((1, 1, WIDTH))[0]
    shape = {"height": (40, WIDTH), "half": MATRIX, "reshaped": (WIDTH, ROWS), "no columns": (ROWS, 0)}[other]
    dtype = ag.float16 if other == "half" else ag.float32
    weight = weights[0][0].to(dtype)[: 0 if other == "no columns" else WIDTH]

    def f(x, stream, y):
        before = chain(x, stream, weights[:1])
        if other == "reshaped":
            beside = jet(y.cumsum(0).reshape(MATRIX), before, weight)
        else:
            beside = jet(y, stream_of_all.to(dtype), weight)
        return chain(x, before, weights[1:]), beside

    given, counts = [*numbers(MATRIX, STREAM), *numbers(shape, dtype=dtype)], []
    compiled = same(f, *given)
    for call in (f, compiled):
        with ag.profiler.count() as counted:
            call(*given)
        counts.append(sum(counted.matmuls.values()))
    assert counts[0] == counts[1]
    assert sum(run.layers for run in written) == 2


# ---- counts, errors, cores -----------------------------------------------------------------------------


def test_a_batch_without_rows_has_no_run(written):
    """Nor have the lines native code in its place, which is there since another batch."""
    weights = layers_of(WIDTH, WIDTH, WIDTH)
    (other,) = numbers((4000,))

    def f(x, stream, y):
        return chain(x, stream, weights), (y * 2 + 1).tanh()

    same(f, *numbers(MATRIX, STREAM), other)
    assert [run.layers for run in written] == [2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_jets, "LEAST_BYTES", 1)
        same(f, *numbers((0, WIDTH), (1, 0, WIDTH)), other, calls=7)
    assert len(written) == 1


@pytest.mark.parametrize("large", [False, True])
def test_products_are_counted_as_without_runs(written, monkeypatch, large):
    """At each call, also the one that writes the run and tries its products; also those that have no emitter."""
    layers.are_equal.cache_clear()
    monkeypatch.setattr(large_products, "PER_BLOCK", 1 if large else 1 << 40)
    network = layers_of(WIDTH, WIDTH, WIDTH)
    x, stream = numbers(MATRIX, (1, 1, WIDTH))
    counts = []
    for runs_by_rows in (False, True):
        with monkeypatch.context() as patch:
            if not runs_by_rows:
                patch.setattr(program, "row_run_at", lambda *given: None)
            compiled = ag.compile(lambda *given: chain(*given, network))
            for _ in range(6):
                with ag.profiler.count() as counted:
                    compiled(x, stream)
                counts.append((counted.matmuls, counted.launches))
    assert counts[:6] == counts[6:]
    assert counts[-1][0] == {(ROWS, WIDTH, WIDTH): 2, (1, WIDTH, WIDTH): 1, (2 * ROWS, WIDTH, WIDTH): 1}
    assert [run.layers for run in written] == [2]


def test_weights_are_packed_once_in_each_call(written):
    """Also one that two products read; and it may have other numbers in the next call."""
    (weight,), given = numbers((ROWS, ROWS), dtype=ag.float64), numbers((ROWS, ROWS), (1, ROWS, ROWS), dtype=ag.float64)

    def f(x, stream):
        return jet((linear(x, weight) * 0.1 + 1).tanh(), stream, weight)

    compiled = same(f, *given)
    (run,) = written
    assert [turned for _, turned in run.packs] == [True]
    assert (run.layers, run.products) == (1, 1)
    with ag.no_grad():
        weight.mul_(2)
    for mine, expected in zip(arrays(compiled(*given)), arrays(f(*given)), strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("where", ["before", "behind"])
def test_an_error_of_an_instruction_beside_a_run_names_it(written, where):
    """And the next call has memory, though the failed one gave none back."""
    network, more = layers_of(WIDTH, WIDTH), layers_of(WIDTH, WIDTH)

    def f(x, stream, y):
        stream = chain(x, stream, network)
        sums = (y if where == "before" else stream).cumsum(1)
        return chain(x, stream, more), sums

    given = numbers(MATRIX, STREAM, (3, 2))
    compiled = same(f, *given)
    assert [run.layers for run in written] == [2]
    assert written[0].before if where == "before" else written[0].after
    scope = programs_of(compiled)[0]._scope
    (name,) = [name for name in scope if name.startswith("f_cumsum")]
    forward = scope[name]

    def failing(xp, *given, **options):
        raise ValueError("no sums today")

    scope[name] = failing
    with pytest.raises(RuntimeError, match=r"^cumsum: no sums today"):
        compiled(*given)
    scope[name] = forward
    for mine, other in zip(arrays(compiled(*given)), arrays(f(*given)), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_eager_code_decides_where_cores_share_products_otherwise(written, monkeypatch):
    """Blocks of eager code depend on the cores, and their bits may; then the lines run, and later the run again."""
    calls, by_tasks = [], row_runs.by_tasks

    def noting(first, tasks):
        run = by_tasks(first, tasks)
        return lambda *arrays: (calls.append(len(tasks)), run(*arrays))

    monkeypatch.setattr(row_runs, "by_tasks", noting)
    network, given = layers_of(WIDTH, WIDTH, 20), numbers(MATRIX, STREAM)
    compiled = same(lambda *given: chain(*given, network), *given)
    assert calls == [4]
    shared = large_products.are_shared
    for cores, are_shared, count in ((1, shared, 1), (3, shared, 1), (2, lambda: False, 1), (2, shared, 2)):
        monkeypatch.setattr(rows, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(large_products, "are_shared", are_shared)
        np.testing.assert_array_equal(compiled(*given).numpy(), chain(*given, network).numpy())
        assert len(calls) == count


def test_a_trial_of_products_holds_for_the_cores_that_it_was_made_with(written, monkeypatch):
    layers.are_equal.cache_clear()
    trials, tried = [], row_instructions.are_equal
    monkeypatch.setattr(row_instructions, "packed_ends", lambda *given, **options: None)
    monkeypatch.setattr(row_instructions, "are_equal", lambda *case: (trials.append(case), tried(*case))[1])
    network, given = layers_of(WIDTH, WIDTH), numbers((24, WIDTH), (1, 24, WIDTH))
    for cores in (1, 2):
        monkeypatch.setattr(rows, "cores", lambda cores=cores: cores)
        same(lambda *given: chain(*given, network), *given)
    assert tried.cache_info().misses == len(trials) == 4
