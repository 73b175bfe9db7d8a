"""Determinants. Their first and second derivatives are right at singular matrices, too.

Note [cofactors]
The gradient of det is the matrix of cofactors C = det(a) a⁻ᵀ, and the derivative of <h, C> is

    det(a) (<h, a⁻ᵀ> a⁻ᵀ - a⁻ᵀ hᵀ a⁻ᵀ)  =  (<h, C> C - C hᵀ C) / det(a)

Both are polynomials in a's elements. Where a is singular, or nearly so, they are computed from its singular values
without dividing: with a = U diag(s) Vᵀ and o = det(U) det(V),

    C = o U diag(the product of all s but one) Vᵀ
    <h, C>' = o U (diag(P diag(H)) - P * Hᵀ) Vᵀ

where H = Uᵀ h V, P_ij is the product of all s but s_i and s_j, and P_ii = 0.
"""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...core.extend import LEADING, MATRICES, RAW, SAME, Tensor, added, defop, public
from ..elementwise.arithmetic import where
from .checks import check_square

# ---- determinants --------------------------------------------------------------------------------------


def _per_matrix(F, x):
    """x, one number per matrix, shaped to broadcast against matrices."""
    return F.unsqueeze(F.unsqueeze(x, -1), -1)


def _inner(F, a, b):
    """The sum of a * b over each matrix, shaped to broadcast against matrices."""
    return F.sum(a * b, (-2, -1), True)


def _det(xp, a):
    check_square("linalg.det", a)
    return backend.decompositions(xp).det(a)


@defop
class det:
    """The determinant of a square matrix, or of each in a batch; float32 or float64.

    The first two derivatives are right at singular matrices too; a third one raises LinAlgError there.

    >>> ag.det(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """

    no_capture = "cuSOLVER"
    forward = _det
    parameter_names = ("A",)
    def grad_a(F, g, a): return _per_matrix(F, g) * F.cofactor(a)
    def jvp(F, t, a): return F.sum(t * F.cofactor(a), (-2, -1))
    batch = MATRICES
    public = "det", "linalg.det"
    methods = no_lossy_save = True


def _slogdet(xp, a):
    check_square("linalg.slogdet", a)
    return backend.decompositions(xp).slogdet(a)


def _slogdet_back(F, g, a):
    return None if g[1] is None else _per_matrix(F, g[1]) * F.mT(F.inv(a, False))  # the sign is constant


@defop
class slogdet:
    """(sign, logabsdet): the sign of the determinant and the logarithm of its absolute value.

    For a singular matrix they are 0 and -inf, and the gradient is NaN.

    >>> ag.slogdet(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    slogdet_result(sign=tensor(-1.), logabsdet=tensor(0.6931))
    """

    no_capture = "cuSOLVER"
    forward = _slogdet
    grad_a = _slogdet_back
    def jvp(F, t, a): return None, F.sum(t * F.mT(F.inv(a, False)), (-2, -1))
    parameter_names = ("A",)
    outputs = ("sign", "logabsdet")
    batch = MATRICES
    public = "slogdet", "linalg.slogdet"
    methods = no_lossy_save = True


@public(methods=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN if it is negative, -inf if it is 0.

    >>> ag.logdet(ag.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(1.7918)
    """
    sign, logarithm = slogdet(input)
    return where(sign < 0, math.nan, logarithm)


# ---- cofactors: see Note [cofactors] ------------------------------------------------------------------


def _well_conditioned(xp, a, inverse, info):
    """Whether every inverse is accurate to about two thirds of its digits, by the condition number in the 1-norm."""
    if isinstance(info, np.ndarray) or info:
        return False
    condition = xp.abs(a).sum(-2).max(-1) * xp.abs(inverse).sum(-2).max(-1)
    return bool((condition * np.finfo(a.dtype).eps ** (1 / 3) < 1).all())


def _svd_with_sign(xp, a):
    """U, s, Vᵀ of a, and det(U) det(V), 1 or -1, shaped to broadcast against matrices."""
    linalg = backend.decompositions(xp)
    u, s, vt = linalg.svd(a, False)
    return u, s, vt, xp.sign(linalg.det(u) * linalg.det(vt))[..., None, None]


def _by_singular_values(xp, a, compute):
    """compute(a) by singular values; NaN for a matrix with NaN or infinity, which cannot be decomposed."""
    unfit = ~xp.isfinite(a).all((-2, -1))[..., None, None]
    if not unfit.any():
        return compute(a)
    result = compute(backend.where(xp, unfit, xp.eye(a.shape[-1], dtype=a.dtype), a))
    return backend.where(xp, unfit, a.dtype.type(math.nan), result)


def _cofactor(xp, a):
    check_square("linalg.det", a)
    if not a.size:
        return a.copy()
    linalg = backend.decompositions(xp)
    inverse, info = linalg.inv(a)
    if _well_conditioned(xp, a, inverse, info):
        return xp.asarray(linalg.det(a))[..., None, None] * inverse.swapaxes(-1, -2)
    return _by_singular_values(xp, a, lambda a: _turned_cofactor(xp, a))


def _turned_cofactor(xp, a):
    u, s, vt, orientation = _svd_with_sign(xp, a)
    return backend.matmul(u * (orientation * RAW.exclusive_prod(s, -1)[..., None, :]), vt)


def _cofactor_grad(xp, h, a):
    if not a.size:
        return h * a
    linalg = backend.decompositions(xp)
    inverse, info = linalg.inv(a)
    if _well_conditioned(xp, a, inverse, info):
        t = inverse.swapaxes(-1, -2)
        folded = backend.matmul(backend.matmul(t, h.swapaxes(-1, -2)), t)
        return xp.asarray(linalg.det(a))[..., None, None] * ((h * t).sum((-2, -1), keepdims=True) * t - folded)
    return _by_singular_values(xp, a, lambda a: _turned_cofactor_grad(xp, h, a))


def _turned_cofactor_grad(xp, h, a):
    u, s, vt, orientation = _svd_with_sign(xp, a)
    h = backend.matmul(backend.matmul(u.swapaxes(-1, -2), h), vt.swapaxes(-1, -2))
    one = xp.eye(s.shape[-1], dtype=bool)
    others = RAW.exclusive_prod(backend.where(xp, one, 1, s[..., None, :]), -1)
    rest = backend.where(xp, one, 0, others).astype(a.dtype, copy=False)
    diagonal = (rest * xp.diagonal(h, axis1=-2, axis2=-1)[..., None, :]).sum(-1)
    inside = backend.where(xp, one, diagonal[..., None], -rest * h.swapaxes(-1, -2))
    return orientation * backend.matmul(backend.matmul(u, inside), vt)


def _third_derivative(F, g, h, a):
    """The derivative of det(a) (x y - z) with x = <g, a⁻ᵀ>, y = <h, a⁻ᵀ>, z = <g, a⁻ᵀ hᵀ a⁻ᵀ>."""
    t = F.mT(F.inv(a))
    tg, th = F.gemm(t, g, False, True), F.gemm(t, h, False, True)
    gt, ht = F.gemm(tg, t), F.gemm(th, t)
    x, y, z = _inner(F, g, t), _inner(F, h, t), _inner(F, g, ht)
    return _per_matrix(F, F.det(a)) * ((x * y - z) * t - x * ht - y * gt + F.gemm(th, gt) + F.gemm(tg, ht))


@defop
class cofactor:
    """The matrix of cofactors of a square matrix: det(a) a⁻ᵀ, also defined for singular matrices.

    >>> from autograd_gpu.ops.linalg.det import cofactor
    >>> cofactor(ag.tensor([[1.0, 2.0], [2.0, 4.0]])).round()
    tensor([[ 4., -2.],
            [-2.,  1.]])
    """

    no_capture = "cuSOLVER"
    forward = _cofactor
    def grad_a(F, g, a): return F.cofactor_grad(g, a)
    def jvp(F, t, a): return F.cofactor_grad(t, a)  # the second derivative of det, which is symmetric
    batch = MATRICES


def _cofactor_grad_jvp(F, t, h, a):
    direct = None if t[0] is None else F.cofactor_grad(t[0], a)
    return direct if t[1] is None else added(direct, _third_derivative(F, t[1], h, a))


@defop
class cofactor_grad:
    """The derivative of sum(h * cofactor(a)) with respect to a.

    >>> from autograd_gpu.ops.linalg.det import cofactor_grad
    >>> cofactor_grad(ag.tensor([[1.0, 0.0], [0.0, 0.0]]), ag.tensor([[1.0, 2.0], [3.0, 4.0]])).round().abs()
    tensor([[0., 0.],
            [0., 1.]])
    """

    no_capture = "cuSOLVER"
    forward = _cofactor_grad
    def grad_h(F, g, a): return F.cofactor_grad(g, a)
    def grad_a(F, g, h, a): return _third_derivative(F, g, h, a)
    types = SAME
    jvp, batch = _cofactor_grad_jvp, LEADING
