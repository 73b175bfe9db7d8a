"""Batches of lu and of matrix_exp, which CUDA does at once where CuPy has functions of one matrix only."""

import numpy as np
import pytest
import scipy.linalg

import autograd_gpu as ag
from autograd_gpu.backend.cuda import runtime

RNG = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("shape", [(5, 3, 3), (2, 3, 4, 4), (1, 300, 300), (3, 4, 2)])
def test_lu(shape, dtype, device):
    """Many small matrices, a large one, and rectangles: each is P L U, and has the pivots that LAPACK chooses."""
    a = RNG.normal(size=shape).astype(dtype)
    x = ag.tensor(a, device=device)
    p, lower, upper = ag.linalg.lu(x)
    assert (p @ lower @ upper).numpy(force=True) == pytest.approx(a, abs=10 * TOLERANCE[dtype])
    for index in np.ndindex(shape[:-2]):
        expected = scipy.linalg.lapack.get_lapack_funcs("getrf", dtype=dtype)(a[index])
        result = ag.linalg.lu_factor(x)
        assert result.LU[index].numpy(force=True) == pytest.approx(expected[0], rel=1e-3, abs=10 * TOLERANCE[dtype])
        assert result.pivots[index].tolist() == (expected[1] + 1).tolist()


def test_lu_tells_which_matrices_are_singular(device):
    a = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2)), [[0.0, 1.0], [1.0, 0.0]]])
    assert ag.linalg.lu_factor_ex(ag.tensor(a, device=device)).info.tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_exp_of_matrices_of_any_size(dtype, device):
    """The norm decides how often a matrix is scaled; in a batch each has its own."""
    a = RNG.normal(size=(2, 5, 3, 3)) * np.array([0, 1e-6, 1, 8, 25])[:, None, None]
    a = (a - a.swapaxes(-1, -2) if dtype == "float32" else a).astype(dtype)  # a rotation: float32 goes to 3e38 only
    expected = np.stack([scipy.linalg.expm(m) for m in a.astype("float64").reshape(-1, 3, 3)]).reshape(a.shape)
    result = ag.matrix_exp(ag.tensor(a, device=device)).numpy(force=True)
    assert result.dtype == dtype
    scale = np.abs(expected).max((-2, -1), keepdims=True)
    np.testing.assert_allclose(result / scale, expected / scale, rtol=0, atol=40 * TOLERANCE[dtype])


def test_exp_of_what_is_no_number_stays_in_its_matrix(device):
    a = np.zeros((4, 2, 2))
    a[1, 0, 0], a[2, 0, 1] = np.nan, np.inf
    result = ag.matrix_exp(ag.tensor(a, device=device)).numpy(force=True)
    np.testing.assert_array_equal(result[[0, 3]], np.stack([np.eye(2)] * 2))
    assert np.isnan(result[1]).any()
    assert not np.isfinite(result[2]).all()


@pytest.mark.cuda
def test_exp_of_one_matrix_that_overflows(device):
    """cupyx's expm reads the trace, and raises OverflowError where its exponential is none."""
    for corner in (np.inf, 4000.0):
        found = ag.matrix_exp(ag.tensor([[corner, 0.0], [0.0, 1.0]], dtype=ag.float64, device=device))
        assert not np.isfinite(found.numpy(force=True)[0, 0])
    turns = ag.matrix_exp(ag.tensor([[-4000.0, 1.0], [0.0, 1.0]], dtype=ag.float64, device=device)).numpy(force=True)
    np.testing.assert_allclose(turns, [[0.0, np.e / 4001], [0.0, np.e]], rtol=1e-10)


def refuse(): raise AssertionError("CuPy's function of one matrix is called")


@pytest.mark.cuda
def test_a_batch_is_no_loop_over_matrices(monkeypatch):
    monkeypatch.setattr(runtime, "scipy_linalg", refuse)
    ag.linalg.lu_factor_ex(ag.eye(3).expand(50, 3, 3))
    ag.linalg.lu_factor_ex(ag.eye(3))  # a batch of one
    with pytest.raises(AssertionError):
        ag.linalg.lu_factor_ex(ag.ones(3, 2))


@pytest.mark.emulated
@pytest.mark.parametrize("call", [ag.linalg.lu_factor_ex, ag.linalg.det, ag.linalg.slogdet], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)], ids=str)
def test_the_host_reads_nothing(launches, device, call, shape):
    x = ag.tensor(RNG.normal(size=shape), device=device)
    with launches() as found:
        call(x)
    assert found.transfers == 0


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (4, 3, 3), (0, 2, 2), (2, 0, 0)], ids=str)
def test_determinants_count_exchanges_of_rows(shape, device):
    a = RNG.normal(size=shape)
    x = ag.tensor(a, device=device)
    np.testing.assert_allclose(ag.linalg.det(x).numpy(force=True), np.linalg.det(a), rtol=1e-12)
    for found, expected in zip(ag.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        np.testing.assert_allclose(found.numpy(force=True), expected, rtol=1e-10, atol=1e-14)


def test_determinant_of_a_singular_matrix(device):
    sign, logarithm = ag.linalg.slogdet(ag.tensor([[1.0, 2.0], [2.0, 4.0]], device=device))
    assert (sign.item(), logarithm.item()) == (0.0, -np.inf)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(3, 3), (50, 3, 3)])
def test_exp_is_never_cupys(shape, monkeypatch):
    monkeypatch.setattr(runtime, "scipy_linalg", refuse)
    ag.matrix_exp(ag.eye(3).expand(*shape))
