"""QR factors, and products of Householder's reflections."""

from __future__ import annotations

from typing import Any

from .. import backend
from ..core.dispatch import defop
from ..core.op import SAME
from ..core.tensor import Tensor
from .matrices import check_matrix

MODES = ("reduced", "complete", "r")


def _qr(xp, a, *, complete=False, with_q=True):
    check_matrix("linalg.qr", a)
    q, r = backend.decompositions(xp).qr(a, complete)
    return (q if with_q else xp.empty((0,), a.dtype)), r


def _qr_back(F, g, Q, R, with_q):
    """(gQ + Q M) R⁻ᵀ with M symmetric and triu(M) = triu(gR Rᵀ - Qᵀ gQ).

    Of a wide matrix the square part goes this way; the columns beyond are Q R2, so that gQ gets Q R2 gR2ᵀ in addition
    and they get Q gR2.
    """
    m, n = R.shape[-2:]
    if not with_q:
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                           "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.")
    if m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    g_q, g_r = g
    beyond = None
    if n > m:
        square, rest = (..., slice(m)), (..., slice(m, None))
        if g_r is not None:
            g_rest = F.basic_index(g_r, rest)
            beyond = F.gemm(Q, g_rest)
            more = F.gemm(Q, F.gemm(F.basic_index(R, rest), g_rest, False, True))
            g_q, g_r = more if g_q is None else g_q + more, F.basic_index(g_r, square)
        else:
            beyond = F.constant_like(F.basic_index(R, rest), 0.0)
        R = F.basic_index(R, square)
    inside = None if g_r is None else F.gemm(g_r, R, False, True)
    if g_q is not None:
        turned = F.gemm(Q, g_q, True, False)
        inside = -turned if inside is None else inside - turned
    out = F.gemm(Q, F.triu(inside) + F.mT(F.triu(inside, 1)))
    out = F.solve_triangular(F.mT(R), out if g_q is None else out + g_q, False, False)
    return out if beyond is None else F.cat([out, beyond], -1)


@defop
class qr_factors:
    """Q and R of `linalg.qr`: all columns of Q if `complete`, else min(m, n) of them, and none without `with_q`.

    >>> from autograd_gpu.ops.qr import qr_factors
    >>> qr_factors(ag.ones(4, 2), complete=True).Q.shape
    (4, 4)
    """

    forward = _qr
    grad_a = _qr_back
    outputs = ("Q", "R")


def qr(a: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with Q @ R = a, orthonormal columns in Q and an upper triangle R; float32 or float64.

    `mode` "reduced" gives min(m, n) columns of Q, "complete" all m of them (no derivative if m > n), and "r" no Q (no
    derivative). The gradient needs the first min(m, n) columns of a to be linearly independent.

    >>> ag.linalg.qr(ag.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    if mode not in MODES:
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    return qr_factors(a, mode == "complete", mode != "r")


# ---- reflections -------------------------------------------------------------------------------------


def _householder(xp, a, tau):
    name = "torch.linalg.householder_product"
    check_matrix(name, a)
    (m, n), k = a.shape[-2:], tau.shape[-1]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < k:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    q = xp.zeros(a.shape, a.dtype)
    q[..., range(n), range(n)] = 1
    for i in reversed(range(k)):
        v = a[..., i:, i].copy()
        v[..., 0] = 1
        below = q[..., i:, :]
        below -= (tau[..., i, None] * v)[..., None] * (v[..., None, :] @ below)
    return q


def _householder_back(F, g, need, a, tau):
    """Back through q_i = q_(i+1) - tau_i v_i (v_iᵀ q_(i+1)), from i = 0 on."""
    k = tau.shape[-1]
    q = F.tril(F.triu(F.constant_like(a, 1.0)))
    vectors = F.tril(a, -1) + q
    steps = []
    for i in reversed(range(k)):
        column = (..., slice(i, i + 1))
        v, t = F.basic_index(vectors, column), F.unsqueeze(F.basic_index(tau, column), -1)
        w = F.gemm(v, q, True, False)
        steps.append((v, t, w, q))
        q = q - t * F.gemm(v, w)
    columns, shares = [], []
    for v, t, w, q in reversed(steps):
        u = F.gemm(v, g, True, False)
        columns.append(-t * (F.gemm(g, w, False, True) + F.gemm(q, u, False, True)))
        shares.append(-F.sum(u * w, -1))
        g = g - t * F.gemm(v, u)
    rest = F.basic_index(a, (..., slice(k, None)))
    grad_a = F.tril(F.cat([*columns, F.constant_like(rest, 0.0)], -1), -1) if need[0] else None
    return grad_a, (F.cat(shares, -1) if shares else F.constant_like(tau, 0.0)) if need[1] else None


@defop
class householder_product:
    """The first n columns of H_1 H_2 ... H_k with H_i = 1 - tau_i v_i v_iᵀ: LAPACK's orgqr.

    v_i is column i of a (..., m, n) from below its diagonal on, after i - 1 zeros and a one.

    >>> ag.linalg.householder_product(ag.tensor([[0.0], [1.0]]), ag.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """

    forward = _householder
    grads = _householder_back
    types = SAME
