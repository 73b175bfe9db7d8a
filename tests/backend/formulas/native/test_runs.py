"""Runs: products, sums, loops and copies as one call, with the bits of NumPy's functions."""

import sys
import threading

import numpy as np
import pytest
from formula_bits import same_bits, values

from autograd_gpu.backend.cpu import blas, sums
from autograd_gpu.backend.formulas.native import runs
from autograd_gpu.backend.formulas.native.runs import MOST_ARRAYS, Operand, Place
from autograd_gpu.backend.formulas.native.ufunc import inner_loop

pytest.importorskip("llvmlite", reason="runs need the extra [native]")
pytestmark = pytest.mark.cpu
FLOATS = (np.dtype("f4"), np.dtype("f8"))


@pytest.fixture(autouse=True)
def _openblas():
    if not runs.are_there():
        pytest.skip("NumPy uses another BLAS")


def test_products_have_the_bits_of_dot():
    """Both layouts of either operand; what dot computes otherwise has no step."""
    rng = np.random.default_rng(0)
    for m, k, n in ((2, 2, 2), (8, 784, 256), (17, 5, 33), (64, 256, 64), (256, 2, 64), (3, 1000, 2)):
        for dtype in FLOATS:
            for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
                assert runs.products_are_equal(m, k, n, ta, tb, dtype), (m, k, n, ta, tb, dtype)
    a, b = rng.standard_normal((4, 6)), rng.standard_normal((6, 5))
    places = [Place(0), Place(1), Place(2)]
    assert runs.gemm(a, b, places) is not None
    for left, right in ((a[:, ::2], b[::2]), (a[:1], b), (a, b[:, :1]), (a[:, :1], b[:1]), (a, b.astype("f4")),
                        (a.astype(int), b.astype(int))):  # fmt: skip
        assert runs.gemm(left, right, places) is None


def test_column_sums_have_the_bits_of_total():
    for n, m in ((2, 2), (8, 10), (100, 2), (128, 64), (256, 64), (1000, 64), (4096, 32), (256, 700)):
        for dtype in FLOATS:
            assert runs.sums_are_equal(n, m, dtype) == ((n, m) != (256, 700)), (n, m)  # NumPy adds those row by row
    assert not sums.block(256, 700, True)[1]


def test_loops_go_through_iterations_offsets_and_numbers():
    for dtype in FLOATS:
        x, row = values(6 * 5, dtype, 0).reshape(6, 5), values(5, dtype, 1)
        two, out, size = np.asarray(2, dtype), np.zeros((6, 5), dtype), dtype.itemsize
        add, multiply = inner_loop("add", dtype), inner_loop("multiply", dtype)
        steps = [
            runs.loop(add, 6, 5, [Operand(Place(0), 5 * size, size), Operand(Place(MOST_ARRAYS), 0, size),
                                  Operand(Place(1), 5 * size, size)]),
            runs.loop(multiply, 1, 10, [Operand(Place(1, 20 * size), 0, size), Operand(Place(MOST_ARRAYS + 1), 0, 0),
                                        Operand(Place(1, 20 * size), 0, size)]),
        ]  # fmt: skip
        with np.errstate(all="ignore"):
            expected = x + row
            expected[4:] *= two
        runs.function_of(steps)(runs.places(row, two), x, out)
        same_bits(out, expected)


def test_copies_and_transposition():
    row, x = np.arange(3, dtype="f8"), np.arange(12, dtype="f4").reshape(3, 4)
    repeated, turned = np.zeros((5, 3)), np.zeros((4, 3), "f4")
    steps = [runs.copies(5, 24, Place(0), Place(1)), runs.transposed(4, 3, Place(2), Place(3))]
    runs.function_of(steps)(runs.places(), row, repeated, x, turned)
    assert (repeated == row).all()
    assert (turned == x.T).all()


def test_a_call_keeps_no_reference_and_raises_no_flag():
    x, out = np.full(4, 1e38, "f4"), np.empty(4, "f4")
    run = runs.function_of([runs.loop(inner_loop("multiply", x.dtype), 1, 4,
                                      [Operand(Place(k), 0, 4) for k in (0, 0, 1)])])  # fmt: skip
    places, before = runs.places(), (sys.getrefcount(None), sys.getrefcount(x))
    for _ in range(1000):
        assert run(places, x, out) is None
    assert abs(sys.getrefcount(None) - before[0]) < 100
    assert sys.getrefcount(x) == before[1]
    with np.errstate(all="raise"):
        assert np.isinf(out).all()
        assert (np.ones(3) + 1 == 2).all()


def test_others_run_meanwhile():
    """A run does not hold the GIL, and threads run the same machine code with memory of their own."""
    a = np.random.default_rng(0).standard_normal((200, 200))
    run, results = runs.function_of([runs.gemm(a, a, [Place(0), Place(1), Place(2)])]), {}

    def work(number):
        left, out = a + number, np.empty_like(a)
        for _ in range(20):
            blas.on_one_thread(run, runs.places(), left, a, out)
        results[number] = np.array_equal(out, blas.on_one_thread(left.dot, a))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {0: True, 1: True, 2: True}


def test_another_blas_has_no_runs(monkeypatch):
    monkeypatch.setattr(runs, "products_of", lambda dtype: None)
    assert not runs.are_there.__wrapped__()
    a = np.ones((4, 4))
    assert runs.gemm(a, a.T, [Place(0)] * 3) is None
    assert runs.column_sums(4, 4, Place, Place(0), Place, Place(1), a.dtype) is None
