"""Singular value decomposition, pseudoinverse, least squares, rank."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...core.extend import (
    LEADING,
    MATRICES,
    SAME,
    Tensor,
    aligned,
    defop,
    every_value,
    expanded,
    one_by_one,
    public,
    rank,
)
from ..creation.factories import empty
from ..creation.from_data import as_tensor
from ..reduction.sum import sum as sum_over
from ..shape.reshape import reshape, squeeze, unsqueeze
from .checks import CONVERGED, NON_FINITE, check_matrix, check_square, converged, fold_batch, unfold_batch
from .eig import eigvalsh, gaps, with_diagonal
from .matmul import ALWAYS, matmul
from .solve import is_vector

# ---- decomposition ------------------------------------------------------------------------------------


def _reason(xp, a):
    """The reason of a failed iteration."""
    return CONVERGED.format(what="singular values") if bool(xp.isfinite(a).all()) else NON_FINITE


def _decomposed(xp, name, a, function, *args):
    check_matrix(name, a)
    try:
        return function(a, *args)
    except np.linalg.LinAlgError:
        return converged(name, _reason(xp, a), function, a, *args)


CUSOLVER = ("gesvd", "gesvdj", "gesvda")


def _refuse_driver(name, driver):
    if driver is not None:
        raise RuntimeError(f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
                           "backend.")


def _check_driver(name, driver):
    if driver is not None and driver not in CUSOLVER:
        raise RuntimeError(f"torch.{name}: unknown svd driver {driver}, please specify driver as one of {CUSOLVER}")


def _svd(check, xp, a, *, full_matrices=True, driver=None):
    check("linalg.svd", driver)
    return _decomposed(xp, "linalg.svd", a, backend.decompositions(xp).svd, full_matrices)


def _skew_over_gaps(F, x, squares):
    return (x - F.mT(x)) / gaps(F, squares)


def _svd_back(F, g, U, S, Vh):
    """With K = gaps of S², and only the first k columns of U and rows of Vᵀ:

    U (skew(Uᵀ gU) / K * S + S * skew(Vᵀ gV) / K + diag(gS)) Vᵀ + (1 - U Uᵀ) gU S⁻¹ Vᵀ + U S⁻¹ gVᵀ (1 - V Vᵀ)
    """
    g_u, g_s, g_v = g
    k = S.shape[-1]
    m, n = U.shape[-2], Vh.shape[-1]
    columns, rows = (..., slice(k)), (..., slice(k), slice(None))
    U, Vh = F.basic_index(U, columns), F.basic_index(Vh, rows)
    inside, outside = None, []
    row, column = F.unsqueeze(S, -2), F.unsqueeze(S, -1)
    if g_u is not None:
        g_u = F.basic_index(g_u, columns)
        turned = F.gemm(U, g_u, True, False)
        inside = _skew_over_gaps(F, turned, S * S) * row
        if m > k:
            outside.append(F.gemm((g_u - F.gemm(U, turned)) / row, Vh))
    if g_v is not None:
        g_v = F.basic_index(g_v, rows)
        turned = F.gemm(Vh, g_v, False, True)
        part = _skew_over_gaps(F, turned, S * S) * column
        inside = part if inside is None else inside + part
        if n > k:
            outside.append(F.gemm(U, (g_v - F.gemm(turned, Vh, True, False)) / column))
    out = F.gemm(F.gemm(U, with_diagonal(F, inside, g_s)), Vh)
    return sum(outside, out)


def _svd_jvp(F, t, U, S, Vh):
    """With K = gaps of S², M = Uᵀ t V, and only the first k columns of U and rows of Vᵀ, diag(M) for S, for U and V

    U ((M S + S Mᵀ) / K) + (1 - U Uᵀ) t V S⁻¹   and   V ((S M + Mᵀ S) / K) + (1 - V Vᵀ) tᵀ U S⁻¹.
    """
    k, m, n = S.shape[-1], U.shape[-2], Vh.shape[-1]
    left, right = F.basic_index(U, (..., slice(k))), F.basic_index(Vh, (..., slice(k), slice(None)))
    image = F.gemm(t, right, False, True)  # t V
    inside = F.gemm(left, image, True, False)
    row, column, far = F.unsqueeze(S, -2), F.unsqueeze(S, -1), gaps(F, S * S)
    by_row, by_column = inside * row, inside * column
    t_u = F.gemm(left, (by_row + F.mT(by_row)) / far)
    t_v = F.gemm((by_column + F.mT(by_column)) / -far, right)  # for Vᵀ, where K has the opposite sign
    if m > k:
        t_u = t_u + (image - F.gemm(left, inside)) / row
    if n > k:
        t_v = t_v + (F.gemm(left, t, True, False) - F.gemm(inside, right)) / column
    return _filled(F, t_u, U, -1), F.diagonal(inside, 0, -2, -1), _filled(F, t_v, Vh, -2)


def _filled(F, t, whole, dim):
    """t with zeros for the additional vectors of `full_matrices`, which have no derivative."""
    if t.shape[dim] == whole.shape[dim]:
        return t
    key = (..., slice(t.shape[dim], None), *(slice(None),) * (-1 - dim))
    return F.cat([t, F.constant_like(F.basic_index(whole, key), 0.0)], dim)


@defop
class svd:
    """(U, S, Vh) with U @ diag(S) @ Vh = a, orthonormal columns in U and rows in Vh, S descending; float32 or float64.

    U and Vh are square, or with `full_matrices=False` have min(m, n) columns and rows; gradients through additional
    vectors are ignored. Singular vectors are unique up to sign; for repeated singular values (or a zero one of a matrix
    that is not square) only their subspace is, and a gradient through U or Vh is NaN or infinite, as in PyTorch, unlike
    a gradient through S alone. `driver`, one of cuSOLVER's routines, is accepted on CUDA only, and has no effect: CuPy
    chooses the routine.

    >>> ag.linalg.svd(ag.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """

    no_capture = "cuSOLVER"
    forward, cuda = partial(_svd, _refuse_driver), partial(_svd, _check_driver)
    grad_a = _svd_back
    jvp, batch = _svd_jvp, MATRICES
    parameter_names = ("A",)
    outputs = ("U", "S", "Vh")
    public = "linalg.svd"
    no_lossy_save = True


def _svdvals(check, xp, a, *, driver=None):
    check("linalg.svdvals", driver)
    return _decomposed(xp, "linalg.svdvals", a, backend.decompositions(xp).svdvals)


def _svdvals_back(F, g, a):
    u, _, vt = F.svd(a, False)
    return F.gemm(u * F.unsqueeze(g, -2), vt)


def _svdvals_jvp(F, t, a):
    u, _, vt = F.svd(a, False)
    return F.sum(u * F.gemm(t, vt, False, True), -2)


@defop
class svdvals:
    """The singular values, descending; float32 or float64. The gradient needs U and Vh, which are computed in backward.
    `driver` as in `svd`.

    >>> ag.linalg.svdvals(ag.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """

    no_capture = "cuSOLVER"
    forward, cuda = partial(_svdvals, _refuse_driver), partial(_svdvals, _check_driver)
    parameter_names = ("A",)
    grad_a = _svdvals_back
    jvp, batch = _svdvals_jvp, MATRICES
    public = "linalg.svdvals"
    no_lossy_save = True


# ---- pseudoinverse ------------------------------------------------------------------------------------


def _cutoff(xp, sizes, shape, atol, rtol):
    """The cutoff below which singular values count as 0: max(atol, rtol * the largest), with PyTorch's defaults."""
    if rtol is None:
        rtol = np.finfo(sizes.dtype).eps * max(shape[-2:]) if not atol else 0.0
    largest = sizes.max(-1, keepdims=True) if sizes.size else sizes.sum(-1, keepdims=True)
    return xp.maximum(largest * rtol, atol or 0.0)


def _pinv(xp, a, *, rcond=None, hermitian=False, atol=None, rtol=None):
    if rcond is not None:
        if atol is not None or rtol is not None:
            raise TypeError("linalg.pinv: rcond is another name of rtol; give atol and rtol without it")
        rtol = rcond
    linalg = backend.decompositions(xp)
    if hermitian:
        check_square("linalg.pinv", a)
        s, u = converged("linalg.pinv", CONVERGED.format(what="eigenvalues"), linalg.eigh, a, "L")
        vt = u.swapaxes(-1, -2)
    else:
        u, s, vt = _decomposed(xp, "linalg.pinv", a, linalg.svd, False)
    kept = xp.abs(s) > _cutoff(xp, xp.abs(s), a.shape, atol, rtol)
    inverse = backend.where(xp, kept, 1 / backend.where(xp, kept, s, 1), 0).astype(a.dtype, copy=False)
    return backend.matmul(vt.swapaxes(-1, -2) * inverse[..., None, :], u.swapaxes(-1, -2))


def _pinv_back(F, g, a, p):
    """-Pᵀ g Pᵀ + (1 - a P) gᵀ P Pᵀ + Pᵀ P gᵀ (1 - P a) for P the pseudoinverse of a, at constant rank.

    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973).
    """
    right = F.gemm(F.gemm(g, p, True, False), p, False, True)  # gᵀ P Pᵀ
    left = F.gemm(p, F.gemm(p, g, False, True), True, False)  # Pᵀ P gᵀ
    out = -F.gemm(F.gemm(p, g, True, False), p, False, True)
    return out + (right - F.gemm(a, F.gemm(p, right))) + (left - F.gemm(F.gemm(left, p), a))


def _pinv_jvp(F, t, a, p):
    """-P t P + P (t P)ᵀ (1 - a P) + (1 - P a) (P t)ᵀ P, the transpose of _pinv_back."""
    after, before = F.gemm(t, p), F.gemm(p, t)
    left, right = F.gemm(p, after, False, True), F.gemm(before, p, True, False)
    out = (left - F.gemm(F.gemm(left, a), p)) + (right - F.gemm(p, F.gemm(a, right)))
    return out - F.gemm(p, after)


@defop
class pinv:
    """The Moore-Penrose pseudoinverse; singular values up to max(atol, rtol * the largest) count as 0.

    rtol, or its older name rcond, is by default max(m, n) times the dtype's eps, or 0 if atol is passed. With
    `hermitian` only the lower triangle of a symmetric matrix is read. The gradient is that at constant rank. float32 or
    float64.

    >>> ag.linalg.pinv(ag.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5, 0. ],
            [0. , 0. ]])
    """

    no_capture = "cuSOLVER"
    forward = _pinv
    def grad_a(F, g, a, out): return _pinv_back(F, g, a, out)
    def jvp(F, t, a, out): return _pinv_jvp(F, t, a, out)
    batch = MATRICES
    public = "linalg.pinv"
    no_lossy_save = True


@public(methods=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with rtol = rcond.

    >>> ag.pinverse(ag.tensor([[2.0], [0.0]]))
    tensor([[0.5, 0. ]])
    """
    return pinv(input, rtol=rcond)


@defop
class numerical_rank:
    """The number of singular values, or of absolute eigenvalues, above max(atol, rtol * the largest), for a matrix of
    `shape`.

    >>> from autograd_gpu.ops.linalg.svd import numerical_rank
    >>> numerical_rank(ag.tensor([2.0, 1.0, 0.0]), (3, 3))
    tensor(2)
    """

    def forward(xp, values, *, shape, atol=None, rtol=None):
        sizes = xp.abs(values)
        return xp.asarray((sizes > _cutoff(xp, sizes, shape, atol, rtol)).sum(-1))
    nondiff = True
    batch = LEADING


@public("linalg.matrix_rank", out=True)
def matrix_rank(
    input: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Tensor:  # fmt: skip
    """The number of singular values above max(atol, rtol * the largest), as int64; defaults as in `linalg.pinv`.

    With `hermitian` it uses eigenvalues, which is faster.

    >>> ag.linalg.matrix_rank(ag.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    input = as_tensor(input)
    check_matrix("linalg.matrix_rank", input)
    input = input.detach()
    return numerical_rank(eigvalsh(input) if hermitian else svdvals(input), input.shape[-2:], atol, rtol)


# ---- least squares ------------------------------------------------------------------------------------


def _least_squares(xp, a, b, *, rcond=None):
    u, s, vt = _decomposed(xp, "linalg.lstsq", a, backend.decompositions(xp).svd, False)
    kept = s > _cutoff(xp, s, a.shape, None, rcond)
    inverse = backend.where(xp, kept, 1 / backend.where(xp, kept, s, 1), 0).astype(a.dtype, copy=False)
    x = backend.matmul(vt.swapaxes(-1, -2), inverse[..., None] * backend.matmul(u.swapaxes(-1, -2), b))
    return x, kept.sum(-1), s


def _least_squares_back(F, g, need, a, b, rcond):
    g = g[0]
    p = F.pinv(a, rcond)
    grad_a = _pinv_back(F, F.gemm(g, b, False, True), a, p) if need[0] else None
    return grad_a, F.gemm(p, g, True, False) if need[1] else None


def _least_squares_jvp(F, t, a, b, solution, rcond):
    """P t_b, and _pinv_jvp times b with P b = x: -P t x + P (t P)ᵀ (b - a x) + (1 - P a) (P t)ᵀ x."""
    t_a, t_b = t
    p, x = F.pinv(a, rcond), solution
    if t_a is None:
        return F.gemm(p, t_b), None, None
    shift, off = F.gemm(t_a, x), b - F.gemm(a, x)
    turned = F.gemm(t_a, F.gemm(p, x, True, False), True, False)  # (P t)ᵀ x
    inner = F.gemm(p, F.gemm(t_a, off, True, False), True, False)  # Pᵀ tᵀ (b - a x)
    right = inner - shift - F.gemm(a, turned)
    return F.gemm(p, right if t_b is None else right + t_b) + turned, None, None


def _least_squares_batch(F, n, batched, a, b, *, rcond):
    def run(a, b): return F.least_squares(a, b, rcond)
    if rank(a, batched[0]) < 2 or rank(b, batched[1]) < 2:
        return one_by_one(F, "least_squares", run, n, batched, (a, b))
    if not batched[0]:
        x, ranks, sizes = run(a, fold_batch(F, b))
        return unfold_batch(F, x, n, b.shape[-1]), *expanded(F, n, (False, False), (ranks, sizes))
    x, ranks, sizes = run(*aligned(F, (True, True), expanded(F, n, batched, (a, b))))
    return x, F.reshape(ranks, a.shape[:-2]), F.reshape(sizes, (*a.shape[:-2], sizes.shape[-1]))


@defop
class least_squares:
    """The x of least norm that minimises the norm of each column of a @ x - b; the rank; and the singular values. Those
    up to rcond * the largest count as 0.

    >>> from autograd_gpu.ops.linalg.svd import least_squares
    >>> least_squares(ag.tensor([[1.0], [1.0]]), ag.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """

    no_capture = "cuSOLVER"
    forward = _least_squares
    grads = _least_squares_back
    types, broadcasts = SAME, ALWAYS
    outputs, nondiff_outputs = ("solution", "rank", "singular_values"), ("rank", "singular_values")
    jvp, batch = _least_squares_jvp, _least_squares_batch
    no_lossy_save = True


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
lstsq_result = namedtuple("lstsq_result", ("solution", "residuals", "rank", "singular_values"))


@public("linalg.lstsq", out=True)
def lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of the least squares problem of input and b; batches broadcast.

    `driver` is one of LAPACK's, by default "gelsy", on CUDA "gels". All of them solve by singular values, of which
    those up to rcond (by default max(m, n) times eps) times the largest count as 0. As in PyTorch, "gels" returns no
    rank, and only "gelsd" and "gelss" return singular values. residuals are the squared norms of the columns of input @
    x - b if m > n, every matrix (under vmap, of all examples) has full rank and the driver is not "gelsy", else empty.

    >>> ag.linalg.lstsq(ag.tensor([[1.0], [1.0]]), ag.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    input, b = as_tensor(input), as_tensor(b)
    check_matrix("torch.linalg.lstsq", input)
    driver = ("gels" if input.is_cuda else "gelsy") if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss); got "
                           f"{driver}")
    vector = is_vector(input.shape, b.shape)
    column = unsqueeze(b, -1) if vector else b
    (m, n), rows = input.shape[-2:], column.shape[-2]
    if m != rows:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2})")
    x, rank, values = least_squares(input, column, rcond)
    residuals = reshape(x, (-1,))[:0]
    if driver != "gelsy" and m > n and bool((every_value(rank) == n).all()):
        away = matmul(input, x) - column
        residuals = sum_over(away * away, -2)
    x = squeeze(x, -1) if vector else x
    rank = empty(0, dtype=rank.dtype, device=input.device) if driver == "gels" else rank
    values = values if driver in ("gelsd", "gelss") else empty(0, dtype=input.dtype, device=input.device)
    return lstsq_result(x, residuals, rank, values)
