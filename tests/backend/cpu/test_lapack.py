"""backend/cpu/lapack.py against NumPy; backend/cuda/cusolver.py against it, with NumPy and SciPy in place of CuPy.

The second shows what happens around CuPy's functions: batches, broadcasting, what is done when one fails. Whether
CuPy's own functions are right, only a run on a GPU shows: there the op table goes through them.
"""

import contextlib
import types

import numpy as np
import pytest
import scipy.linalg

from autograd_gpu.backend.cpu import blas, lapack, rows
from autograd_gpu.backend.cuda import cusolver

pytestmark = pytest.mark.cpu
SHAPES = [(3, 3), (2, 3, 3), (2, 1, 2, 2), (0, 0), (0, 3, 3)]
RECTANGLES = [(4, 3), (3, 4), (2, 4, 3), (2, 3, 4), (0, 3), (3, 0), (0, 4, 3)]


def each(function):
    """A SciPy function of matrices for batches of them, as CuPy's is."""

    def batched(a, b, **options):
        stacked = [function(x, y, **options) for x, y in zip(_flat(a), _flat(b), strict=True)]
        return np.stack(stacked).reshape(b.shape)

    return batched


def _flat(a):
    return a.reshape(-1, *a.shape[-2:])


def solve(a, b):
    """numpy.linalg.solve, which CuPy's is but for this."""
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    return np.linalg.solve(a, b)


@pytest.fixture
def played_by_numpy(monkeypatch):
    functions = {**vars(np.linalg), "solve": solve}
    overrides = {
        "linalg": types.SimpleNamespace(**functions),
        "broadcast_to": lambda a, shape: np.broadcast_to(a, shape, subok=True),
    }
    module = types.SimpleNamespace(**{**vars(np), **overrides})
    theirs = types.SimpleNamespace(
        lu_factor=scipy.linalg.lu_factor, expm=scipy.linalg.expm, solve_triangular=each(scipy.linalg.solve_triangular)
    )
    answers = {
        "cupy": lambda: module,
        "scipy_linalg": lambda: theirs,
        "raising_linalg_errors": contextlib.nullcontext,
        "to_host": lambda a: a,
        "from_host": lambda a, index: a,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(cusolver.runtime, name, answer)
    monkeypatch.setattr(cusolver, "_lu_of_batch", lu_of_batch)

    class Array(np.ndarray):  # NumPy's arrays have no index of their device
        device = types.SimpleNamespace(id=0)

    return lambda a: a.view(Array)


def lu_of_batch(a):
    """What cuBLAS computes: info is an array."""
    factors, pivots, info = lapack.lu(np.asarray(a))
    return factors, pivots, np.full(a.shape[:-2], info, np.int32)


def matrices(*shape):
    return np.random.default_rng(0).normal(size=shape) + 2 * np.eye(*shape[-2:])


def positive(*shape):
    a = matrices(*shape)
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


def as_tuple(actual):
    return actual if isinstance(actual, tuple) else (actual,)


def assert_same(actual, expected):
    for f, e in zip(as_tuple(actual), as_tuple(expected), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-12)


CALLS = {
    "lu": (lambda m, a: m.lu(a), matrices, SHAPES + RECTANGLES),
    "inv": (lambda m, a: m.inv(a), matrices, SHAPES),
    "solve": (lambda m, a: m.solve(a, a[..., :2]), matrices, SHAPES),
    "solve broadcasting": (lambda m, a: m.solve(a, np.ones((a.shape[-1], 1))), matrices, SHAPES),
    "lower": (lambda m, a: m.cholesky(a, False), positive, SHAPES),
    "upper": (lambda m, a: m.cholesky(a, True), positive, SHAPES),
    "triangle": (lambda m, a: m.solve_triangular(a, a[..., :2], False, False), matrices, SHAPES),
    "unit triangle": (lambda m, a: m.solve_triangular(a, np.ones((a.shape[-1], 1)), True, True), matrices, SHAPES),
    "slogdet": (lambda m, a: m.slogdet(a), matrices, SHAPES),
    "det": (lambda m, a: m.det(a), matrices, SHAPES),
    "expm": (lambda m, a: m.expm(a), matrices, SHAPES),
    "qr": (lambda m, a: m.qr(a, False), matrices, SHAPES + RECTANGLES),
    "complete qr": (lambda m, a: m.qr(a, True), matrices, RECTANGLES),
    "eigh": (lambda m, a: m.eigh(a, "L"), positive, SHAPES),
    "eigvalsh": (lambda m, a: m.eigvalsh(a, "U"), positive, SHAPES),
    "eig": (lambda m, a: m.eig(a), positive, SHAPES),
    "svd": (lambda m, a: m.svd(a, True), matrices, RECTANGLES),
    "svdvals": (lambda m, a: m.svdvals(a), matrices, RECTANGLES),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_both_files_have_the_same_functions(name, played_by_numpy):
    call, domain, shapes = CALLS[name]
    for shape in shapes:
        a = domain(*shape)
        assert_same(call(cusolver, played_by_numpy(a)), call(lapack, a))


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
BATCH = np.stack([np.eye(2), SINGULAR, -np.eye(2), np.zeros((2, 2))])
FAILURES = {
    "lu": (lambda m, a: m.lu(a)[2], [0, 2, 0, 1]),
    "inv": (lambda m, a: m.inv(a)[1], [0, 2, 0, 1]),
    "solve": (lambda m, a: m.solve(a, a)[1], [0, 2, 0, 1]),
    "cholesky": (lambda m, a: m.cholesky(a, False)[1], [0, 2, 1, 1]),
    "upper": (lambda m, a: m.cholesky(a, True)[1], [0, 2, 1, 1]),
}


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_info(name, played_by_numpy):
    """Of a batch, of one matrix, and of a batch without a failure."""
    call, expected = FAILURES[name]
    for module, made in ((lapack, np.asarray), (cusolver, played_by_numpy)):
        info = call(module, made(BATCH))
        assert info.dtype == np.int32
        assert info.tolist() == expected
        assert call(module, made(SINGULAR)) == 2
        assert call(module, made(BATCH[:1])) == 0


def test_what_failed_is_nan_and_the_others_are_right(played_by_numpy):
    for module, made in ((lapack, np.asarray), (cusolver, played_by_numpy)):
        inverse, _ = module.inv(made(BATCH))
        np.testing.assert_array_equal(inverse[0], np.eye(2))
        assert np.isnan(inverse[1]).all()
        factor, _ = module.cholesky(made(BATCH), True)
        np.testing.assert_array_equal(factor[0], np.eye(2))
        triangle = np.triu(np.ones((2, 2), bool))  # of the rows before the minor that fails, the zeros may stay
        assert np.isnan(factor[2][triangle]).all()


@pytest.mark.parametrize("shape", RECTANGLES)
def test_qr_is_numpys(shape):
    a = matrices(*shape)
    assert_same(lapack.qr(a, False), tuple(np.linalg.qr(a)))
    assert_same(lapack.qr(a, True), tuple(np.linalg.qr(a, "complete")))


def test_qr_of_a_large_matrix_is_numpys():
    """Beyond the size whose mask is kept, and beyond LAPACK's block."""
    a = matrices(90, 80)
    q, r = lapack.qr(a, False)
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(80), atol=1e-12)
    np.testing.assert_array_equal(r, np.triu(r))


@pytest.mark.parametrize("shape", [*SHAPES, (5, 3, 3)])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular_solves(shape, upper, unit):
    a = matrices(*shape)
    b = np.random.default_rng(1).normal(size=(shape[-1], 2))
    one = np.eye(shape[-1])
    t = np.triu(a, 1) if upper else np.tril(a, -1)
    x = lapack.solve_triangular(a, b, upper, unit)
    np.testing.assert_allclose((t + (one if unit else a * one)) @ x, np.broadcast_to(b, x.shape), atol=1e-12)


@pytest.mark.parametrize("shape", [(60, 3, 3), (60, 2, 4), (5, 20, 4, 2)])
def test_lu_of_many_matrices_is_that_of_each(shape):
    a = np.random.default_rng(0).integers(-1, 2, shape).astype("float64")  # many are singular, with equal pivots
    factors, pivots, info = lapack.lu(a)
    alone = [lapack.lu(matrix) for matrix in a.reshape(-1, *shape[-2:])]
    np.testing.assert_allclose(factors.reshape(-1, *shape[-2:]), [one[0] for one in alone], atol=1e-12)
    np.testing.assert_array_equal(pivots.reshape(len(alone), -1), [one[1] for one in alone])
    np.testing.assert_array_equal(np.ravel(info), [one[2] for one in alone])


# ---- batches by blocks -------------------------------------------------------------------------------


@pytest.fixture
def blocks(monkeypatch):
    """The blocks of matrices that are computed, as (matrices, step): of 2^10 elements or more, on two threads."""
    seen, original = [], rows.in_blocks

    def in_blocks(count, step, work):
        seen.append((count, step))
        original(count, step, work)

    monkeypatch.setattr(rows, "cores", lambda: 2)
    monkeypatch.setattr(rows, "in_blocks", in_blocks)
    monkeypatch.setattr(lapack, "PER_BLOCK", 1 << 10)
    return seen


BY_BLOCKS = {
    "inv": (lambda a: lapack.inv(a)[0], np.linalg.inv),
    "det": (lapack.det, np.linalg.det),
    "slogdet": (lapack.slogdet, np.linalg.slogdet),
    "cholesky": (lambda a: lapack.cholesky(a, False)[0], np.linalg.cholesky),
    "upper cholesky": (lambda a: lapack.cholesky(a, True)[0], lambda a: np.linalg.cholesky(a).mT),
    "qr": (lambda a: lapack.qr(a, False), np.linalg.qr),
    "complete qr": (lambda a: lapack.qr(a[..., :5], True), lambda a: np.linalg.qr(a[..., :5], "complete")),
    "eigh": (lambda a: lapack.eigh(a, "L"), np.linalg.eigh),
    "eigvalsh": (lambda a: lapack.eigvalsh(a, "U"), np.linalg.eigvalsh),
    "eig": (lapack.eig, np.linalg.eig),
    "svd": (lambda a: lapack.svd(a, False), lambda a: np.linalg.svd(a, False)),
    "full svd": (lambda a: lapack.svd(a[..., :5], True), lambda a: np.linalg.svd(a[..., :5], True)),
    "svdvals": (lapack.svdvals, lambda a: np.linalg.svd(a, compute_uv=False)),
}


def positive(*shape, dtype=np.float64):
    a = np.random.default_rng(0).standard_normal(shape)
    return (a @ a.mT / shape[-1] + np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BY_BLOCKS)
def test_a_batch_by_blocks_is_as_numpys(blocks, name, dtype):
    own, numpys = BY_BLOCKS[name]
    a = positive(7, 5, 16, 16, dtype=dtype)  # 35 matrices in blocks of 5 or more
    for matrices in (a, a[::-1, :, ::-1, ::-1], a.swapaxes(0, 1)):
        results, expected = own(matrices), numpys(matrices)
        if not isinstance(expected, tuple):
            results, expected = (results,), (expected,)
        for result, exact in zip(results, expected, strict=True):
            assert (result.shape, result.dtype) == (exact.shape, exact.dtype)
            assert np.allclose(result, exact, rtol=1e-4, atol=1e-5)
    assert len(blocks) == 3
    assert all(step < count == 35 for count, step in blocks)


def test_complex_eigenvalues_in_some_blocks_only(blocks):
    a = np.tile(np.eye(16), (32, 1, 1))
    assert lapack.eig(a)[0].dtype == np.linalg.eig(a)[0].dtype  # complex from NumPy 2.5 on
    a[-1, :2, :2] = [[0, 1], [-1, 0]]
    values, vectors = lapack.eig(a)
    assert (values.dtype, vectors.dtype) == (np.complex128, np.complex128)
    assert sorted(values[-1].imag) == [-1, *[0] * 14, 1]
    assert blocks


@pytest.mark.parametrize("place", [0, 17, 31])
def test_a_matrix_that_fails_in_one_block(blocks, place):
    a = positive(32, 16, 16)
    a[place] = 0
    before = blas.limit_of("numpy").get()
    for result, info in (lapack.inv(a), lapack.cholesky(a, False), lapack.cholesky(a, True)):
        assert np.flatnonzero(info).tolist() == [place]
        assert np.flatnonzero(np.isnan(result).any((1, 2))).tolist() == [place]
    a[place] = np.nan
    for function in (lambda: lapack.svd(a, True), lambda: lapack.eig(a)):
        with pytest.raises(np.linalg.LinAlgError):
            function()
    assert blocks
    assert blas.limit_of("numpy").get() == before
