"""Layers of compiled second derivatives by blocks of rows: the bits of eager code, and what joins a run."""


import itertools

import numpy as np
import pytest
from compiled_groups import programs_of

import autograd_gpu as ag
from autograd_gpu.backend.cpu import large_products, rows
from autograd_gpu.backend.formulas.native import layers, runs, switch
from autograd_gpu.compilation import program, row_runs
from autograd_gpu.nn.functional import linear
from autograd_gpu.ops import layer_jets

pytestmark = pytest.mark.cpu
ROWS, WIDTH = 96, 16


@pytest.fixture(autouse=True)
def written(at_once, monkeypatch):
    """Native code at once, and blocks of 12 rows on two cores; the runs by blocks of rows that programs have."""
    pytest.importorskip("llvmlite", reason="needs the extra [native]")
    if not switch.is_on() or not runs.are_there():
        pytest.skip("native code is off")
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 0)
    monkeypatch.setattr(layer_jets, "FEWEST", 12)
    monkeypatch.setattr(layers, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(large_products, "are_shared", lambda: True)
    monkeypatch.setattr(rows, "cores", lambda: 2)
    listed, write = [], row_runs.RowRun.write
    monkeypatch.setattr(row_runs.RowRun, "write", lambda self: (listed.append(self), write(self)))
    return listed


def numbers(*shapes, dtype=ag.float32):
    """Tensors on the CPU, small enough for tanh."""
    return [ag.randn(*shape, dtype=dtype, device="cpu") * 0.3 for shape in shapes]


def jet(saved, stream, weight, bias=None, activation="tanh"):
    """A layer of one tangent and one second derivative."""
    how = {"activation": activation, "d": 1, "groups": (((0, 0),),)}
    return layer_jets.layer_jet(saved, stream, weight, bias, **how).after


def arrays(results):
    return [t.detach().numpy() for t in (results if isinstance(results, tuple) else (results,))]


def same(f, *arguments, calls=4):
    """A compiled function whose calls have the bits of eager code."""
    expected, compiled = arrays(f(*arguments)), ag.compile(f)
    for _ in range(calls):
        for mine, other in zip(arrays(compiled(*arguments)), expected, strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)
    assert compiled.counts.compiled == calls - 2
    return compiled


# ---- memory --------------------------------------------------------------------------------------------

STREAM, MATRIX = (1, ROWS, WIDTH), (ROWS, WIDTH)


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


def test_a_weight_that_the_run_makes_is_complete_before_it_is_read(written):
    """More elements than are turned: every block reads the weight where it lies."""
    first, second = numbers((128, 128), (192, 128))

    def f(x, stream):
        made = linear(x, first)
        return jet((linear(x, made) * 0.1 + 1).tanh(), stream, second)

    same(f, *numbers((192, 128), (1, 192, 128)))
    assert len(written) == 1


@pytest.mark.parametrize("rows_of_weight", [192, 256], ids=["memory of the program", "large"])
def test_a_weight_stays_until_the_last_block_has_read_it(written, rows_of_weight):
    """A later instruction of the run would take its memory: that of the program, or that of an operand."""
    height, k = rows_of_weight, 128 if rows_of_weight == 192 else 200
    square, weight = numbers((k, k), (height, k))

    def f(x, stream, y):
        made = (y * 2 + 1).sin() * 0.1
        kept = made * 3 + y
        stream = jet((linear(x, square) * 0.3 + 1).tanh(), stream, square)
        saved = (linear(x, made) * 0.1 + 1).tanh()
        other = (linear(x, square) * 2 + 1).tanh() if k == 128 else (made * x + 1).tanh() * 0.5
        return jet(saved, stream, weight), jet(other, stream, square), kept.cumsum(0)

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


# ---- counts, errors, cores -----------------------------------------------------------------------------


def chain(x, stream, layers):
    """Layers with a weight and a bias each."""
    for weight, bias in layers:
        x = (linear(x, weight) + bias).tanh()
        stream = jet(x, stream, weight)
    return stream


def layers_of(*sizes, dtype=ag.float32):
    return [numbers((h, k), (h,), dtype=dtype) for k, h in itertools.pairwise(sizes)]


def test_a_batch_without_rows_has_no_run(written):
    network = layers_of(WIDTH, WIDTH, WIDTH)
    (other,) = numbers((4000,))

    def f(x, stream, y):
        return chain(x, stream, network), (y * 2 + 1).tanh()

    compiled, (x, stream) = ag.compile(f), numbers((0, WIDTH), (1, 0, WIDTH))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_jets, "LEAST_BYTES", 1)
        shapes = [[t.shape for t in compiled(x, stream, other)] for _ in range(4)]
    assert shapes == [[(2, 0, WIDTH), (4000,)]] * 4
    assert compiled.counts.compiled == 2
    assert not written


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

    def noting(functions):
        run = by_tasks(functions)
        return lambda *arrays: (calls.append(len(functions)), run(*arrays))

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
    trials, tried = [], row_runs.are_equal
    monkeypatch.setattr(row_runs, "are_equal", lambda *case: (trials.append(case), tried(*case))[1])
    network, given = layers_of(WIDTH, WIDTH), numbers((24, WIDTH), (1, 24, WIDTH))
    for cores in (1, 2):
        monkeypatch.setattr(rows, "cores", lambda cores=cores: cores)
        same(lambda *given: chain(*given, network), *given)
    assert tried.cache_info().misses == len(trials) == 4
