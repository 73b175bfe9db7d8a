"""Layers of compiled second derivatives by blocks of rows: the bits of eager code, and what joins a run."""


import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import large_products, rows
from autograd_gpu.backend.formulas.native import layers, runs, switch
from autograd_gpu.compilation import row_runs
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
