"""Eigenvalues and eigenvectors."""

from __future__ import annotations

import math

from ... import backend
from ...core.extend import MATRICES, defop
from .checks import CONVERGED, check_square, converged

# ---- symmetric matrices -------------------------------------------------------------------------------


def _failed(name):
    return name, CONVERGED.format(what="eigenvalues")


def _check_triangle(UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")


def _eigh(xp, a, *, UPLO="L"):
    check_square("linalg.eigh", a)
    _check_triangle(UPLO)
    return converged(*_failed("linalg.eigh"), backend.decompositions(xp).eigh, a, UPLO.upper())


def gaps(F, w):
    """w_j - w_i, with infinity on the diagonal, so that quotients are zero there."""
    far = F.constant_like(w, math.inf)
    return F.unsqueeze(w, -2) - F.unsqueeze(w, -1) + F.diagonal_backward(far, (*w.shape, w.shape[-1]), 0, -2, -1)


def with_diagonal(F, matrix, d):
    """The sum of `matrix` and the diagonal matrix of d, either of which may be None."""
    if d is None:
        return matrix
    diagonal = F.diagonal_backward(d, (*d.shape, d.shape[-1]), 0, -2, -1)
    return diagonal if matrix is None else matrix + diagonal


def _eigh_back(F, g, eigenvalues, eigenvectors):
    """V (diag(g_w) + skew(Vᵀ g_V) / gaps) Vᵀ; rotations of two eigenvectors need distinct eigenvalues."""
    g_w, g_v = g
    if g_v is None:
        return F.gemm(eigenvectors * F.unsqueeze(g_w, -2), eigenvectors, False, True)
    turned = F.gemm(eigenvectors, g_v, True, False)
    inside = with_diagonal(F, (turned - F.mT(turned)) * 0.5 / gaps(F, eigenvalues), g_w)
    return F.gemm(F.gemm(eigenvectors, inside), eigenvectors, False, True)


def _eigh_jvp(F, t, eigenvalues, eigenvectors):
    """diag(M) and V ((M + Mᵀ) / 2 / gaps) for M = Vᵀ t V; only the symmetric part of t counts."""
    inside = F.gemm(eigenvectors, F.gemm(t, eigenvectors), True, False)
    turn = (inside + F.mT(inside)) * 0.5 / gaps(F, eigenvalues)
    return F.diagonal(inside, 0, -2, -1), F.gemm(eigenvectors, turn)


@defop
class eigh:
    """(eigenvalues, eigenvectors) of a symmetric matrix, the values ascending, the vectors as orthonormal columns.

    Only the triangle `UPLO`, "L" or "U", is read; the gradient is symmetric. Eigenvectors are unique up to sign; for
    repeated eigenvalues only their subspace is, and a gradient through them is NaN or infinite, as in PyTorch, unlike a
    gradient through the eigenvalues alone. float32 or float64.

    >>> ag.linalg.eigh(ag.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """

    no_capture = "cuSOLVER"
    forward = _eigh
    grad_a = _eigh_back
    outputs = ("eigenvalues", "eigenvectors")
    jvp, batch = _eigh_jvp, MATRICES
    public = "linalg.eigh"
    no_lossy_save = True


def _eigvalsh(xp, a, *, UPLO="L"):
    check_square("linalg.eigvalsh", a)
    _check_triangle(UPLO)
    return converged(*_failed("linalg.eigvalsh"), backend.decompositions(xp).eigvalsh, a, UPLO.upper())


def _eigvalsh_back(F, g, a, UPLO):
    vectors = F.eigh(a, UPLO)[1]
    return F.gemm(vectors * F.unsqueeze(g, -2), vectors, False, True)


def _eigvalsh_jvp(F, t, a, UPLO):
    vectors = F.eigh(a, UPLO)[1]
    return F.sum(vectors * F.gemm(t, vectors), -2)


@defop
class eigvalsh:
    """The eigenvalues of a symmetric matrix, ascending; only the triangle `UPLO` is read. float32 or float64.

    The gradient is symmetric, and needs the eigenvectors, which are computed in backward.

    >>> ag.linalg.eigvalsh(ag.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """

    no_capture = "cuSOLVER"
    forward = _eigvalsh
    grad_a = _eigvalsh_back
    jvp, batch = _eigvalsh_jvp, MATRICES
    public = "linalg.eigvalsh"


# ---- any square matrix --------------------------------------------------------------------------------


def _real(xp, name, a):
    """Eigenvalues and eigenvectors; RuntimeError if they are complex."""
    check_square(name, a)
    if not bool(xp.isfinite(a).all()):
        raise RuntimeError(f"torch.{name}: input tensor should not contain infs or NaNs.")
    values, vectors = converged(*_failed(name), backend.decompositions(xp).eig, a)
    if values.dtype.kind == "c":
        if bool((values.imag != 0).any()):
            raise RuntimeError(f"{name}: the matrix has complex eigenvalues, and there are no complex dtypes; use "
                               "linalg.eigh for a symmetric matrix, or numpy.linalg.eig(A.numpy()) for the values")
        values, vectors = values.real, vectors.real
    return values.astype(a.dtype, copy=False), vectors.astype(a.dtype, copy=False)


def _eig_back(F, g, eigenvalues, eigenvectors):
    """V⁻ᵀ (diag(g_w) + (Vᵀ g_V - Vᵀ V diag(Vᵀ g_V)) / gaps) Vᵀ, for columns of constant norm."""
    g_w, g_v = g
    inside = None
    if g_v is not None:
        turned = F.gemm(eigenvectors, g_v, True, False)
        along = F.unsqueeze(F.diagonal(turned, 0, -2, -1), -2)
        inside = (turned - F.gemm(eigenvectors, eigenvectors, True, False) * along) / gaps(F, eigenvalues)
    inside = with_diagonal(F, inside, g_w)
    return F.solve(F.mT(eigenvectors), F.gemm(inside, eigenvectors, False, True))


def _eig_jvp(F, t, eigenvalues, eigenvectors):
    """diag(M) and D = V (M / gaps) for M = V⁻¹ t V, minus the component of D's columns that changes their norm."""
    inside = F.solve(eigenvectors, F.gemm(t, eigenvectors))
    turn = F.gemm(eigenvectors, inside / gaps(F, eigenvalues))
    longer = F.sum(eigenvectors * turn, -2, True)
    return F.diagonal(inside, 0, -2, -1), turn - eigenvectors * longer


@defop
class eig:
    """(eigenvalues, eigenvectors) of a square matrix whose eigenvalues are real, in no order; vectors as unit columns.

    There are no complex dtypes: RuntimeError for a matrix with complex eigenvalues, where PyTorch returns complex
    tensors for every matrix. For repeated eigenvalues a gradient through the eigenvectors is NaN or infinite. float32
    or float64.

    >>> ag.linalg.eig(ag.tensor([[2.0, 1.0], [0.0, 1.0]])).eigenvalues
    tensor([2., 1.])
    """

    no_capture = "cuSOLVER"
    def forward(xp, a): return _real(xp, "linalg.eig", a)
    grad_a = _eig_back
    outputs = ("eigenvalues", "eigenvectors")
    jvp, batch = _eig_jvp, MATRICES
    public = "linalg.eig"
    no_lossy_save = True


def _eigvals_back(F, g, a):
    vectors = F.eig(a)[1]
    return F.solve(F.mT(vectors), F.mT(vectors * F.unsqueeze(g, -2)))


def _eigvals_jvp(F, t, a):
    vectors = F.eig(a)[1]
    return F.diagonal(F.solve(vectors, F.gemm(t, vectors)), 0, -2, -1)


@defop
class eigvals:
    """The eigenvalues of a square matrix, in no order; RuntimeError if they are complex, see `linalg.eig`.

    >>> ag.linalg.eigvals(ag.tensor([[2.0, 1.0], [0.0, 1.0]]))
    tensor([2., 1.])
    """

    no_capture = "cuSOLVER"
    def forward(xp, a): return _real(xp, "linalg.eigvals", a)[0]
    grad_a = _eigvals_back
    jvp, batch = _eigvals_jvp, MATRICES
    public = "linalg.eigvals"
    no_lossy_save = True
