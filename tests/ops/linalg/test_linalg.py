"""ag.linalg: what is made of several ops, degenerate matrices, layouts, errors. The blocks themselves: the op table."""

import itertools
import math

import numpy as np
import pytest
from op_db import values
from op_rows.linalg.shared import regular, spread, symmetric

import autograd_gpu as ag
from autograd_gpu.autograd import grad, gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
A, B, TALL, WIDE = regular(RNG, 3, 3), RNG.normal(size=(3, 2)), spread(RNG, 4, 3), spread(RNG, 2, 4)
BATCH, POSITIVE = regular(RNG, 2, 3, 3), symmetric(regular(RNG, 3, 3)) + np.eye(3)
VECTOR, CUBE = RNG.normal(size=3), RNG.normal(size=(2, 3, 4))
LINEAR_MAP = regular(RNG, 6, 6).reshape(2, 3, 6)
INF = math.inf

# name -> (function of the library `m`, ag or torch, and of tensors; the arrays that they are made from)
COMPOSED = {
    "logdet": (lambda m, a: m.logdet(a), A),
    "inverse": (lambda m, a: m.inverse(a), BATCH),
    "inv_ex": (lambda m, a: m.linalg.inv_ex(a).inverse, BATCH),
    "solve_ex": (lambda m, a, b: m.linalg.solve_ex(a, b).result, BATCH, B),
    "tensorinv": (lambda m, a: m.linalg.tensorinv(a, 2), LINEAR_MAP),
    "tensorsolve": (lambda m, a, b: m.linalg.tensorsolve(a, b), LINEAR_MAP, RNG.normal(size=(2, 3))),
    "tensorsolve dims": (
        lambda m, a, b: m.linalg.tensorsolve(a, b, dims=(0,)),
        np.moveaxis(LINEAR_MAP, -1, 0),
        RNG.normal(size=(2, 3)),
    ),
    "cholesky_ex": (lambda m, a: m.linalg.cholesky_ex((a + a.mT) / 2).L, POSITIVE),
    "cholesky_solve": (lambda m, b, a: m.cholesky_solve(b, m.tril(a)), B, POSITIVE),
    "cholesky_solve upper": (lambda m, b, a: m.cholesky_solve(b, m.triu(a), upper=True), B, POSITIVE),
    "cholesky_inverse": (lambda m, a: m.cholesky_inverse(m.tril(a)), POSITIVE),
    "cholesky_inverse upper": (lambda m, a: m.cholesky_inverse(m.triu(a), upper=True), BATCH),
    "lu P": (lambda m, a: m.linalg.lu(a)[0], TALL),
    "lu L": (lambda m, a: m.linalg.lu(a).L, TALL),
    "lu U": (lambda m, a: m.linalg.lu(a).U, WIDE),
    "lu_factor": (lambda m, a: m.linalg.lu_factor(a).LU, BATCH),
    "lu_unpack": (lambda m, a: m.lu_unpack(*m.linalg.lu_factor(a))[2], BATCH),
    "lu_solve": (lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b), BATCH, B),
    "lu_solve right": (lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b, left=False), A, B.T),
    "lu_solve adjoint": (lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b, adjoint=True), BATCH, B),
    "lu_solve right adjoint": (
        lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b, left=False, adjoint=True),
        A,
        B.T,
    ),
    "qr": (lambda m, a: m.linalg.qr(a).Q, TALL),
    "qr complete": (lambda m, a: m.linalg.qr(a, mode="complete").R, WIDE),
    "householder_product": (lambda m, a, tau: m.linalg.householder_product(a, tau), TALL, VECTOR),
    "householder_product of fewer": (
        lambda m, a, tau: m.linalg.householder_product(a, tau),
        np.stack([TALL, -TALL]),
        RNG.normal(size=(2, 2)),
    ),
    "svd full": (lambda m, a: m.linalg.svd(a).S, TALL),
    "pinverse": (lambda m, a: m.pinverse(a), WIDE),
    "pinv hermitian": (lambda m, a: m.linalg.pinv((a + a.mT) / 2, hermitian=True), BATCH),
    "lstsq": (lambda m, a, b: m.linalg.lstsq(a, b).solution, TALL, RNG.normal(size=(4, 2))),
    "lstsq wide": (lambda m, a, b: m.linalg.lstsq(a, b).solution, WIDE, RNG.normal(size=(2, 1))),
    "lstsq residuals": (lambda m, a, b: m.linalg.lstsq(a, b, driver="gelsd")[1], TALL, RNG.normal(size=(4, 2))),
    "matrix_exp": (lambda m, a: m.matrix_exp(a), BATCH),
    "matrix_power 0": (lambda m, a: m.matrix_power(a, 0) * a, BATCH),
    "matrix_power 1": (lambda m, a: m.matrix_power(a, 1), BATCH),
    "matrix_power 6": (lambda m, a: m.linalg.matrix_power(a, 6), A),
    "matrix_power -3": (lambda m, a: m.linalg.matrix_power(a, -3), A),
    "vander": (lambda m, x: m.vander(x, 4), VECTOR),
    "vander increasing": (lambda m, x: m.vander(x, increasing=True), VECTOR),
    "linalg.vander": (lambda m, x: m.linalg.vander(x, N=5), B),
    "linalg.cross": (lambda m, a, b: m.linalg.cross(a, b), A, VECTOR[None]),
    "linalg.diagonal": (lambda m, a: m.linalg.diagonal(a, offset=1), CUBE),
    "linalg.vecdot": (lambda m, a, b: m.linalg.vecdot(a, b, dim=1), CUBE, CUBE[:1] * 2),
    "multi_dot": (lambda m, a, b, c: m.linalg.multi_dot([a, b, c]), A, TALL.T, TALL),
    "multi_dot of two": (lambda m, a, b: m.linalg.multi_dot([a, b]), A, VECTOR),
    "multi_dot of vectors": (lambda m, a, b: m.linalg.multi_dot([a, b, b, a]), VECTOR, A),
    "chain_matmul": (lambda m, a, b: m.chain_matmul(a, b), A, B),
    "tensordot": (lambda m, a, b: m.tensordot(a, b, dims=2), CUBE, CUBE.transpose(1, 2, 0)),
    "tensordot dims": (lambda m, a, b: m.tensordot(a, b, dims=([-1, 0], [2, 0])), CUBE, CUBE),
    "tensordot 0": (lambda m, a, b: m.tensordot(a, b, dims=0), B, VECTOR),
    "tensordot of size 1": (lambda m, a, b: m.tensordot(a, b, dims=([1], [1])), CUBE, CUBE[:, :1]),
    "inner": (lambda m, a, b: m.inner(a, b), CUBE, TALL.T),
    "inner of vectors": (lambda m, a, b: m.inner(a, b), VECTOR, VECTOR + 1),
    "inner of a number": (lambda m, a, b: m.inner(a, b), VECTOR[0], CUBE),
    "vdot": (lambda m, a, b: m.vdot(a, b), VECTOR, VECTOR + 1),
    "ger": (lambda m, a, b: m.ger(a, b), VECTOR, VECTOR + 1),
    "kron": (lambda m, a, b: m.kron(a, b), A, B),
    **{
        f"vector_norm {order} {dim}": (
            lambda m, x, order=order, dim=dim: m.linalg.vector_norm(x, order, dim, keepdim=dim == 1),
            CUBE,
        )
        for order, dim in itertools.product((0, 1, 2, 3.5, INF, -INF, -1), (None, 1, (0, -1)))
    },
    **{
        f"matrix_norm {order}": (lambda m, x, order=order: m.linalg.matrix_norm(x, order), CUBE)
        for order in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)
    },
    "matrix_norm dims": (lambda m, x: m.linalg.matrix_norm(x, "nuc", dim=(2, 0), keepdim=True), CUBE),
    "norm": (lambda m, x: m.linalg.norm(x), CUBE),
    "norm of a matrix": (lambda m, x: m.linalg.norm(x, 2), A),
    "norm of a vector": (lambda m, x: m.linalg.norm(x, 3), VECTOR),
    "norm dims": (lambda m, x: m.linalg.norm(x, 1, dim=(0, 1)), CUBE),
    "norm dim": (lambda m, x: m.linalg.norm(x, 1, dim=1, keepdim=True), CUBE),
    **{f"cond {p}": (lambda m, a, p=p: m.linalg.cond(a, p), BATCH) for p in (None, 2, -2, 1, -1, INF, "fro", "nuc")},
    "cond of a rectangle": (lambda m, a: m.linalg.cond(a), TALL),
}
NAMES = sorted(COMPOSED)
CONSTANT = {"lu P", *(name for name in NAMES if name.startswith("vector_norm 0"))}
# PyTorch's gradient of these raises (2.13 writes into tensors that it saved), or fills the triangle that is not read.
NOT_THEIRS = {"cond 1", "cond -1", "cond inf", "cond fro", "vander", "vander increasing"}
NOT_THEIRS |= {name for name in NAMES if name.startswith("cholesky_")}


def leaves(arrays, device):
    return [ag.tensor(array, device=device, requires_grad=True) for array in arrays]


def assert_equal(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual.numpy(force=True), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_pytorchs(name, device):
    torch = pytest.importorskip("torch")
    function, *arrays = COMPOSED[name]
    ours = leaves(arrays, device)
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    result, expected = function(ag, *ours), function(torch, *theirs)
    assert_equal(result, expected.detach().numpy())
    assert result.dtype == np.float64
    if name in CONSTANT | NOT_THEIRS:
        return
    weights = np.random.default_rng(1).normal(size=result.shape)
    first = grad(result, ours, ag.tensor(weights, device=device))
    for g, e in zip(first, torch.autograd.grad(expected, theirs, torch.tensor(weights)), strict=True):
        assert_equal(g, e.numpy())


@pytest.mark.same_on_cpu
@pytest.mark.parametrize("name", sorted(set(NAMES) - CONSTANT))
def test_derivatives(name, device):
    function, *arrays = COMPOSED[name]
    assert gradcheck(lambda *xs: function(ag, *xs), tuple(leaves(arrays, device)))
    assert gradgradcheck(lambda *xs: function(ag, *xs), tuple(leaves(arrays, device)), atol=1e-4)


# ---- layouts -----------------------------------------------------------------------------------------

DECOMPOSITIONS = {
    "inv": ag.linalg.inv, "det": ag.linalg.det, "slogdet": ag.linalg.slogdet, "eigvalsh": ag.linalg.eigvalsh,
    "cholesky": ag.linalg.cholesky, "lu": ag.linalg.lu_factor, "qr": ag.linalg.qr, "svd": ag.linalg.svdvals,
    "pinv": ag.linalg.pinv, "exp": ag.matrix_exp, "solve": lambda a: ag.linalg.solve(a, a[..., 0]),
    "eigh": lambda a: ag.linalg.eigh(a)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(DECOMPOSITIONS))
def test_layouts(name, device):
    """Transposed, strided, reversed and stretched batches give what contiguous ones give."""
    function = DECOMPOSITIONS[name]
    a = np.stack([POSITIVE, 2 * POSITIVE])
    block = np.zeros((4, 6, 6))
    block[1::2, ::2, 1::2] = a
    layouts = [
        ag.tensor(np.ascontiguousarray(a.swapaxes(-1, -2)), device=device).mT,
        ag.tensor(block, device=device)[1::2, ::2, 1::2],
        ag.tensor(np.ascontiguousarray(a[::-1]), device=device).flip(0),
        ag.tensor(np.ascontiguousarray(a.T), device=device).permute(2, 1, 0),
    ]

    def first(x):
        result = function(x)
        return result if isinstance(result, ag.Tensor) else result[0]

    expected = first(ag.tensor(a, device=device)).numpy(force=True)
    for x in layouts:
        assert_equal(first(x), expected)
    assert_equal(first(ag.tensor(POSITIVE, device=device).expand((3, 3, 3))), np.stack([expected[0]] * 3))


def test_inputs_stay_as_they_are(device):
    for function in DECOMPOSITIONS.values():
        for a in (POSITIVE, np.stack([POSITIVE] * 2)):
            x = ag.tensor(np.asfortranarray(a), device=device)
            function(x)
            assert_equal(x, a, 0)


# ---- degenerate matrices -----------------------------------------------------------------------------

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize("matrix", [SINGULAR, np.zeros((2, 2)), np.diag([1.0, 2.0, 0.0]), np.diag([3.0, 0.0, 0.0])])
def test_det_of_a_singular_matrix_has_two_right_derivatives(matrix, device):
    """Where PyTorch's first one is zero and its second one wrong or NaN."""
    x = ag.tensor(matrix, device=device, requires_grad=True)
    assert gradcheck(ag.det, (x,))
    assert gradgradcheck(ag.det, (x,))


def test_det_of_a_nearly_singular_matrix(device):
    a = np.array([[1.0, 2.0], [2.0, 4.0 + 1e-14]])
    x = ag.tensor(a, device=device, requires_grad=True)
    (g,) = grad(ag.det(x), x)
    assert_equal(g, [[a[1, 1], -2.0], [-2.0, 1.0]])


def test_third_derivative_of_det(device):
    x = ag.tensor(A, device=device, requires_grad=True)
    assert gradgradcheck(lambda a: grad(ag.det(a), a, create_graph=True)[0], (x,))


def test_slogdet_of_a_singular_matrix(device):
    x = ag.tensor(np.zeros((2, 2)), device=device, requires_grad=True)
    sign, logarithm = ag.slogdet(x)
    assert (sign.item(), logarithm.item()) == (0, -INF)
    assert grad(sign, x, retain_graph=True, allow_unused=True) == (None,)
    assert np.isnan(grad(logarithm, x)[0].numpy(force=True)).all()
    assert ag.logdet(-ag.eye(3, device=device)).isnan().item()


def test_eigenvalues_that_repeat(device):
    """Their own gradient is right; one through the eigenvectors is not finite."""
    x = ag.eye(3, dtype=ag.float64, device=device, requires_grad=True)
    for function in (ag.linalg.eigvalsh, lambda a: ag.linalg.eigh(a).eigenvalues, ag.linalg.svdvals):
        assert_equal(grad(function(x).sum(), x)[0], np.eye(3))
    for function in (lambda a: ag.linalg.eigh(a).eigenvectors, lambda a: ag.linalg.svd(a).U):
        with np.errstate(all="ignore"):
            assert not np.isfinite(grad(function(x).sum(), x)[0].numpy(force=True)).all()


def test_pinv_of_a_matrix_without_full_rank(device):
    """The gradient along matrices of the same rank: a = b cᵀ."""
    b, c = leaves([TALL[:, :2], TALL[:3, :2]], device)
    assert gradcheck(lambda b, c: ag.linalg.pinv(b @ c.mT), (b, c))
    assert ag.linalg.matrix_rank(b @ c.mT).item() == 2


def test_equal_singular_values_share_the_gradient_of_the_norm(device):
    x = ag.eye(3, dtype=ag.float64, device=device, requires_grad=True)
    assert_equal(grad(ag.linalg.matrix_norm(x, 2), x)[0], np.eye(3) / 3)


def test_info_of_matrices_that_fail(device):
    """The first zero pivot or minor of each; NaN in their place and right answers beside them."""
    bad = ag.tensor(np.stack([POSITIVE, np.diag([1.0, 0.0, 1.0]), -np.eye(3)]), device=device)
    inverse, info = ag.linalg.inv_ex(bad)
    assert info.tolist() == [0, 2, 0]
    assert info.dtype == np.int32
    assert_equal(inverse[0], np.linalg.inv(POSITIVE))
    assert inverse[1].isnan().all().item()
    factor, info = ag.linalg.cholesky_ex(bad)
    assert info.tolist() == [0, 2, 1]
    assert_equal(factor[0], np.linalg.cholesky(POSITIVE))
    assert factor[2, 1:].isnan().all().item()
    x, info = ag.linalg.solve_ex(bad, ag.ones(3, dtype=ag.float64, device=device))
    assert info.tolist() == [0, 2, 0]
    assert_equal(x[2], [-1, -1, -1])
    assert ag.linalg.lu_factor_ex(bad).info.tolist() == [0, 2, 0]
    assert ag.linalg.inv_ex(bad[1]).info.item() == 2


@pytest.mark.cpu
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 70])
def test_a_failed_cholesky_factor_has_the_rows_before_the_minor(n, upper):
    """From them trust-region methods learn by how much a matrix fails to be positive definite."""
    torch = pytest.importorskip("torch")
    a = np.random.default_rng(n).standard_normal((n, n))
    a = a @ a.T + np.eye(n)
    for k in {0, n // 2, n - 1}:
        failing = a - np.diag(np.arange(n) == k) * 3 * abs(a).max()
        factor, info = ag.linalg.cholesky_ex(ag.tensor(failing), upper=upper)
        expected, torch_info = torch.linalg.cholesky_ex(torch.tensor(failing), upper=upper)
        assert info.item() == torch_info.item() == k + 1
        ours, theirs = (x.numpy().T if upper else x.numpy() for x in (factor, expected))
        np.testing.assert_allclose(ours[:k], theirs[:k], atol=1e-9)
        np.testing.assert_allclose(ours[k, :k], theirs[k, :k], atol=1e-9)
        assert np.isnan(ours[k + 1 :]).all()
        assert np.isnan(ours[k, k])


def test_triangular_system_with_a_zero_on_the_diagonal(device):
    x = ag.linalg.solve_triangular(ag.zeros(2, 2, device=device), ag.ones(2, 1, device=device), upper=True)
    assert not x.isfinite().any().item()


# ---- results that are no function of one tensor ------------------------------------------------------


def test_lstsq_returns_what_the_driver_gives(device):
    a, b = leaves([TALL, TALL[:, :2] * 2], device)
    result = ag.linalg.lstsq(a, b, driver="gelsd")
    assert_equal(result.singular_values, np.linalg.svd(TALL, compute_uv=False))
    assert result.rank.item() == 3
    assert result.residuals.shape == (2,)
    assert ag.linalg.lstsq(a, b, driver="gels").rank.shape == (0,)
    assert ag.linalg.lstsq(a, b, driver="gelsy").singular_values.shape == (0,)
    assert ag.linalg.lstsq(a, b[:, 0]).solution.shape == (3,)
    assert ag.linalg.lstsq(b.mT, a.mT[:2]).residuals.shape == (0,)


def test_matrix_rank(device):
    a = ag.tensor(np.stack([np.eye(2), SINGULAR, np.zeros((2, 2))]), device=device)
    assert ag.linalg.matrix_rank(a).tolist() == [2, 1, 0]
    assert ag.linalg.matrix_rank(a, hermitian=True).tolist() == [2, 1, 0]
    assert ag.linalg.matrix_rank(a, atol=1.5).tolist() == [0, 1, 0]
    assert ag.linalg.matrix_rank(a, rtol=1.0).tolist() == [0, 0, 0]
    assert ag.linalg.matrix_rank(a).dtype == np.int64


def test_cond_of_a_singular_matrix(device):
    zero = ag.zeros(2, 2, device=device)
    assert ag.linalg.cond(zero, 1).item() == INF
    assert ag.linalg.cond(ag.ones(2, 2, device=device), "fro").item() == INF


def test_qr_without_q(device):
    q, r = ag.linalg.qr(ag.tensor(TALL, device=device), mode="r")
    assert q.shape == (0,)
    assert_equal(r, np.linalg.qr(TALL, "r"))
    assert ag.linalg.qr(ag.tensor(TALL, device=device), mode="complete").Q.shape == (4, 4)


# ---- errors ------------------------------------------------------------------------------------------


def ones(*shape, dtype=ag.float64):
    return ag.ones(*shape, dtype=dtype)


ERRORS = [
    (lambda: ag.linalg.inv_ex(ones(2, 2), check_errors=True), "linalg.inv_ex: The diagonal element 2 is zero"),
    (lambda: ag.linalg.inv(ones(3, 2, 2)), r"linalg.inv: \(Batch element 0\): The diagonal element 2 is zero"),
    (lambda: ag.linalg.solve_ex(ones(2, 2), ones(2), check_errors=True), "torch.linalg.solve_ex: The solver failed"),
    (lambda: ag.linalg.cholesky_ex(-ag.eye(2), check_errors=True), "linalg.cholesky_ex: The factorization could not"),
    (lambda: ag.linalg.lu_factor(ones(2, 2)), r"torch.linalg.lu_factor: U\[2,2\] is zero"),
    (lambda: ag.linalg.lu(ones(2, 2), pivot=False), "LU without pivoting"),
    (lambda: ag.linalg.lu_solve(*ag.linalg.lu_factor(ag.eye(3)), ag.ones(4, 2)), r"AX = B \(3x3 and 4x2\)"),
    (lambda: ag.linalg.qr(ones(2, 2), mode="full"), "qr received unrecognized mode 'full'"),
    (lambda: ag.linalg.eig(ag.tensor([[0.0, -1.0], [1.0, 0.0]])), "complex eigenvalues"),
    (lambda: ag.linalg.eig(ones(2, 2) * INF), "torch.linalg.eig: input tensor should not contain infs or NaNs"),
    (lambda: ag.linalg.svd(ones(2, 2) * math.nan), "linalg.svd: .*contained non-finite values"),
    (lambda: ag.linalg.svdvals(ones(2, 2) * math.nan), "linalg.svdvals: .*contained non-finite values"),
    (lambda: ag.linalg.lstsq(ones(4, 2), ones(3)), r"input.size\(-2\) should match other.size\(-1\)"),
    (lambda: ag.linalg.lstsq(ones(4, 2), ones(4), driver="qr"), "parameter `driver` should be one of"),
    (lambda: ag.linalg.vector_norm(ones(2), "nuc"), "linalg.vector_norm: ord is a number"),
    (lambda: ag.linalg.vector_norm(ag.ones(2, dtype=ag.int64)), "linalg.vector_norm: Expected a floating point"),
    (lambda: ag.linalg.vector_norm(ones(0), INF), "cannot compute the inf norm on an empty tensor"),
    (lambda: ag.linalg.matrix_norm(ones(3)), "must have at least 2 dimensions"),
    (lambda: ag.linalg.matrix_norm(ones(2, 2), 3), "Order 3 not supported"),
    (lambda: ag.linalg.matrix_norm(ones(2, 2), dim=(0, 0)), r"dims must be different. Got \(0, 0\)"),
    (lambda: ag.linalg.matrix_norm(ones(2, 2), dim=(0,)), "dim must be a 2-tuple"),
    (lambda: ag.linalg.matrix_norm(ag.ones(2, 2, dtype=ag.int64)), "Expected a floating point"),
    (lambda: ag.linalg.norm(ones(2, 2, 2), 2), "the input must be 1D or 2D. Got 3D"),
    (lambda: ag.linalg.norm(ones(2, 2, 2), 2, (0, 1, 2)), r"must be of length 1 or 2. Got \[0, 1, 2\]"),
    (lambda: ag.linalg.norm(ones(2, 2), "nuc", 0), "dim must be a 2-tuple. Got 0"),
    (lambda: ag.linalg.cond(ones(2, 3), 1), r"linalg.cond\(ord=1\): A must be batches of square"),
    (lambda: ag.linalg.matrix_power(ones(2, 3), 2), "linalg.matrix_power: A must be batches of square"),
    (lambda: ag.linalg.matrix_power(ones(3), 2), "linalg.matrix_power: .*at least 2 dimensions"),
    (lambda: ag.linalg.matrix_power(ones(2, 2), -1), "linalg.inv: The diagonal element 2 is zero"),
    (lambda: ag.linalg.vander(ones(1)), "N must be greater than 1"),
    (lambda: ag.vander(ones(1, 1)), "x must be a one-dimensional tensor"),
    (lambda: ag.linalg.tensorinv(ones(2, 3)), "but got 1 != 6"),
    (lambda: ag.linalg.tensorinv(ones(2, 2), 0), "strictly positive integer for 'ind', but got 0"),
    (lambda: ag.linalg.tensorsolve(ones(2, 3), ones(2)), "but got 3 != 2"),
    (lambda: ag.linalg.householder_product(ones(2, 3), ones(2)), r"shape\[-2\] must be greater than or equal"),
    (lambda: ag.linalg.householder_product(ones(3, 2), ones(3)), r"shape\[-1\] must be greater than or equal"),
    (lambda: ag.cholesky_solve(ones(3, 2), ones(2, 2)), "each A matrix is 2 by 2 but each b matrix is 3 by 2"),
    (lambda: ag.cholesky_solve(ones(3), ag.eye(3)), "b should have at least 2 dimensions, but has 1"),
    (lambda: ag.cholesky_inverse(ones(2, 3)), "cholesky_inverse: A must be batches of square matrices"),
    (lambda: ag.linalg.multi_dot([ones(2, 2)]), "expected at least 2 tensors but got 1"),
    (lambda: ag.linalg.multi_dot([ones(2, 2), ones(2, 2, 2), ones(2, 2)]), "tensor 1 must be 2D but got 3D"),
    (lambda: ag.linalg.multi_dot([ones(3, 3), ones(2, 2)]), r"shapes \[3, 3\] and \[2, 2\] cannot be multiplied"),
    (lambda: ag.tensordot(ones(2, 2), ones(2, 2), -1), "tensordot expects dims >= 0, but got dims=-1"),
    (lambda: ag.tensordot(ones(2, 2), ones(2, 2), 3), "tensordot expects dims < ndim_a or ndim_b, but got dims=3"),
    (lambda: ag.tensordot(ones(2, 3), ones(2, 2), ([1], [1])), "first has size 3 in dim 1 and second has size 2"),
    (lambda: ag.tensordot(ones(2, 3), ones(2, 2), ([0, 1], [1])), "both dimension lists should have same length"),
    (lambda: ag.tensordot(ones(2, 2), ones(2, 2), ([0, 0], [0, 1])), "dim 0 appears multiple times"),
    (lambda: ag.inner(ones(2, 3), ones(2, 4)), r"got shapes \[2, 3\] and \[2, 4\]"),
]  # fmt: skip


@pytest.mark.cpu
@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("mode", ["r", "complete"])
def test_qr_that_has_no_derivative(mode, device):
    x = ag.tensor(TALL, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"depends on Q, which|not differentiable when mode='complete'"):
        ag.linalg.qr(x, mode).R.sum().backward()


def test_the_error_is_one_of_its_own(device):
    with pytest.raises(ag.linalg.LinAlgError):
        ag.linalg.inv(ag.zeros(2, 2, device=device))


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "cholesky"])
def test_integers_are_refused(name, device):
    with pytest.raises(RuntimeError, match="Expected a floating point tensor as input"):
        getattr(ag.linalg, name)(ag.ones(2, 2, dtype=ag.int64, device=device))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_det_of_what_is_not_finite(bad, device):
    """NaN, as in PyTorch, in forward and in both derivatives; other matrices of the batch are what they are."""
    good = np.array([[1.0, 2.0], [3.0, 4.0]])
    for data, at in ((np.array([[1.0, bad], [3.0, 4.0]]), ()), (np.array([[[1.0, bad], [3.0, 4.0]], good]), (0,))):
        a = ag.tensor(data, device=device, requires_grad=True)
        (g,) = ag.autograd.grad(ag.linalg.det(a).sum(), a, create_graph=True)
        (h,) = ag.autograd.grad(g.sum(), a)
        for actual, expected in ((g, [[4, -3], [-2, 1]]), (h, [[1, -1], [-1, 1]])):
            assert np.isnan(values(actual)[at]).any()
            if at:
                np.testing.assert_allclose(values(actual)[1], expected, atol=1e-12)
