"""QR decomposition, and products of Householder reflections."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import FULL_FLOATS
from ...backend.cpu import lapack
from ...core.extend import SAME, Tensor, defop, expanded, one_by_one, public, rank
from .checks import check_matrix

MODES = ("reduced", "complete", "r")


def _qr(xp, a, *, complete=False, with_q=True):
    check_matrix("linalg.qr", a)
    q, r = backend.decompositions(xp).qr(a, complete)
    return (q if with_q else xp.empty((0,), a.dtype)), r


def _differentiable(r_shape, with_q):
    """The sizes of R; RuntimeError if there is no derivative."""
    m, n = r_shape[-2:]
    if not with_q:
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                           "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.")
    if m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    return m, n


def _qr_back(F, g, Q, R, with_q):
    """(gQ + Q M) R⁻ᵀ with M symmetric and triu(M) = triu(gR Rᵀ - Qᵀ gQ).

    For a wide matrix this is the gradient of the square part; the columns beyond are Q R2, so they have the gradient Q
    gR2, and gQ gets R2's share in addition.
    """
    m, n = _differentiable(R.shape, with_q)
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


def _qr_jvp(F, t, Q, R, with_q):
    """dQ = C - Q M, dR = M R with C = t R⁻¹, M = triu(B) + tril(B, -1)ᵀ, B = Qᵀ C.

    For a wide matrix this is the square part, and the columns beyond it have dR2 = Qᵀ (t2 - dQ R2).
    """
    m, n = _differentiable(R.shape, with_q)
    beyond = (..., slice(m, None))
    first, square = (F.basic_index(x, (..., slice(m))) if n > m else x for x in (t, R))
    c = F.solve_triangular(square, first, True, False)
    b = F.gemm(Q, c, True, False)
    inside = F.triu(b) + F.mT(F.tril(b, -1))
    t_q, t_r = c - F.gemm(Q, inside), F.gemm(inside, square)
    if n > m:
        rest = F.basic_index(t, beyond) - F.gemm(t_q, F.basic_index(R, beyond))
        t_r = F.cat([t_r, F.gemm(Q, rest, True, False)], -1)
    return t_q, t_r


def _qr_batch(F, n, batched, a, *, complete, with_q):
    if rank(a, True) < 2:
        return one_by_one(F, "qr_factors", lambda x: F.qr_factors(x, complete, with_q), n, batched, (a,))
    q, r = F.qr_factors(a, complete, with_q)
    return q if with_q else F.expand(q, (n, 0)), r


@defop
class qr_factors:
    """Q and R of `linalg.qr`: all columns of Q if `complete`, else min(m, n) of them, and none without `with_q`.

    >>> from autograd_gpu.ops.linalg.qr import qr_factors
    >>> qr_factors(ag.ones(4, 2), complete=True).Q.shape
    (4, 4)
    """

    no_capture = "cuSOLVER"
    forward = _qr
    grad_a = _qr_back
    outputs = ("Q", "R")
    jvp, batch = _qr_jvp, _qr_batch
    no_lossy_save = True


@public("linalg.qr", out=True)
def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with Q @ R = a, orthonormal columns in Q and an upper triangle R; float32 or float64.

    `mode` "reduced" returns min(m, n) columns of Q, "complete" all m (no derivative if m > n), and "r" an empty Q (no
    derivative). The gradient needs linearly independent first min(m, n) columns of a.

    >>> ag.linalg.qr(ag.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    if mode not in MODES:
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    return qr_factors(A, mode == "complete", mode != "r")


# ---- reflections -------------------------------------------------------------------------------------


HOUSEHOLDER = "torch.linalg.householder_product"


def _householder(xp, a, tau):
    check_matrix(HOUSEHOLDER, a)
    (m, n), k = a.shape[-2:], tau.shape[-1]
    if m < n:
        raise RuntimeError(f"{HOUSEHOLDER}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < k:
        raise RuntimeError(f"{HOUSEHOLDER}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if type(a) is np.ndarray and a.ndim == 2 and tau.size and a.dtype in FULL_FLOATS:
        return lapack.reflected(a, tau)
    q = xp.zeros(a.shape, a.dtype)
    q[..., range(n), range(n)] = 1
    for i in reversed(range(k)):
        v = a[..., i:, i].copy()
        v[..., 0] = 1
        below = q[..., i:, :]
        below -= (tau[..., i, None] * v)[..., None] * (v[..., None, :] @ below)
    return q


def _householder_back(F, g, need, a, tau):
    """The gradient of q_i = q_(i+1) - tau_i v_i (v_iᵀ q_(i+1)), from i = 0 on."""
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


def _householder_jvp(F, t, a, tau):
    """The tangent of q_i = q_(i+1) - tau_i v_i (v_iᵀ q_(i+1)), from the last i on."""
    t_a = F.constant_like(a, 0.0) if t[0] is None else t[0]
    t_tau = F.constant_like(tau, 0.0) if t[1] is None else t[1]
    q = F.tril(F.triu(F.constant_like(a, 1.0)))
    vectors, t_vectors, t_q = F.tril(a, -1) + q, F.tril(t_a, -1), F.constant_like(a, 0.0)
    for i in reversed(range(tau.shape[-1])):
        column = (..., slice(i, i + 1))
        v, t_v = F.basic_index(vectors, column), F.basic_index(t_vectors, column)
        scale, t_scale = (F.unsqueeze(F.basic_index(x, column), -1) for x in (tau, t_tau))
        w = F.gemm(v, q, True, False)
        t_w = F.gemm(t_v, q, True, False) + F.gemm(v, t_q, True, False)
        t_q = t_q - F.gemm(t_scale * v + scale * t_v, w) - scale * F.gemm(v, t_w)
        q = q - scale * F.gemm(v, w)
    return t_q


@defop
class householder_product:
    """The first n columns of H_1 H_2 ... H_k with H_i = 1 - tau_i v_i v_iᵀ: LAPACK's orgqr.

    v_i is column i of a (..., m, n) from below its diagonal on, after i - 1 zeros and a one.

    >>> ag.linalg.householder_product(ag.tensor([[0.0], [1.0]]), ag.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """

    no_capture = "cuSOLVER"
    forward = _householder
    def batch(F, n, batched, a, tau):
        if rank(a, batched[0]) < 2:  # the op raises
            return one_by_one(F, "householder_product", F.householder_product, n, batched, (a, tau))
        return F.householder_product(*expanded(F, n, batched, (a, tau)))
    grads, jvp = _householder_back, _householder_jvp
    types = SAME
    public = "linalg.householder_product"
