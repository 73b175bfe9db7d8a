"""LU decomposition with row exchanges: P L U = a."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from ... import backend
from ...core.extend import (
    LEADING,
    MATRICES,
    RAW,
    RECORD,
    Tensor,
    check_values,
    defop,
    expanded,
    one_by_one,
    public,
    rank,
)
from ..creation.convert import contiguous
from ..shape.permute import mT
from .checks import check_matrix, check_system, info_array, raise_if_failed
from .cholesky import solve_triangular

# ---- packed factors -----------------------------------------------------------------------------------


def _zero_pivot(i):
    return (f"U[{i},{i}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
            "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)")


def _packed(xp, a, *, pivot=True, check_errors=False):
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented; leave pivot=True")
    check_matrix("torch.linalg.lu_factor", a)
    factors, pivots, info = backend.decompositions(xp).lu(a)
    if check_errors:
        raise_if_failed("torch.linalg.lu_factor_ex", backend.to_numpy(info_array(info, a)), _zero_pivot)
    return factors, pivots, info_array(info, a)


def _parts(F, shape):
    """Functions that return a matrix's square part, the columns right of it, and the rows below."""
    (m, n), k = shape[-2:], min(shape[-2:])
    whole, first, rest = slice(None), slice(k), slice(k, None)

    def corner(x): return x if m == n else F.basic_index(x, (..., first, first))
    def right(x): return F.basic_index(x, (..., whole, rest))
    def below(x): return F.basic_index(x, (..., rest, whole))

    return corner, right, below


def _packed_back(F, g, LU, pivots):
    """With a[order] = L U, square parts L1 and U1, remainders L2 and U2 (at most one is not empty):

    L1⁻ᵀ (tril(L1ᵀ gL1 - gU2 U2ᵀ, -1) + triu(gU1 U1ᵀ - L2ᵀ gL2)) U1⁻ᵀ,  beside it L1⁻ᵀ gU2, below it gL2 U1⁻ᵀ.
    """
    g = g[0]
    (m, n), (corner, right, below) = LU.shape[-2:], _parts(F, LU.shape)
    k = min(m, n)
    square, g1 = corner(LU), corner(g)
    flipped, g_lower = F.mT(square), F.tril(g1, -1)
    strict = g_lower + F.gemm(F.tril(square, -1), g_lower, True, False)
    rest = F.gemm(F.triu(g1), F.triu(square), False, True)
    if n > k:
        strict = strict - F.gemm(right(g), right(LU), False, True)
    if m > k:
        rest = rest - F.gemm(below(LU), below(g), True, False)
    out = F.solve_triangular(flipped, F.tril(strict, -1) + F.triu(rest), True, True, True)
    out = F.solve_triangular(flipped, out, False, False)
    if n > k:
        out = F.cat([out, F.solve_triangular(flipped, right(g), True, True, True)], -1)
    if m > k:
        out = F.cat([out, F.solve_triangular(flipped, below(g), False, False)], -2)
    return _reordered(F, out, F.row_order(pivots, m, True))


def _packed_jvp(F, t, LU, pivots):
    """With L1, U1, ... as above, t[order] = T1, beside it T2, below it T3, and M = L1⁻¹ T1 U1⁻¹:

    L1 tril(M, -1) + triu(M) U1,  beside it L1⁻¹ T2 - tril(M, -1) U2,  below it T3 U1⁻¹ - L2 triu(M).
    """
    (m, n), (corner, right, below) = LU.shape[-2:], _parts(F, LU.shape)
    k = min(m, n)
    t, square = _reordered(F, t, F.row_order(pivots, m)), corner(LU)
    inside = F.solve_triangular(square, corner(t), False, True, True)
    inside = F.solve_triangular(square, inside, True, False)
    lower, upper = F.tril(inside, -1), F.triu(inside)
    out = lower + F.gemm(F.tril(square, -1), lower) + F.gemm(upper, F.triu(square))
    if n > k:
        beside = F.solve_triangular(square, right(t), False, True, True) - F.gemm(lower, right(LU))
        out = F.cat([out, beside], -1)
    if m > k:
        out = F.cat([out, F.solve_triangular(square, below(t), True, False) - F.gemm(below(LU), upper)], -2)
    return out, None, None


def _reordered(F, x, order):
    """x[order] for each matrix."""
    batch = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = F.expand(x, (*batch, *x.shape[-2:]))
    return F.gather_along(x, F.expand(F.unsqueeze(order, -1), x.shape), -2)


@defop
class lu_factor_ex:
    """(LU, pivots, info): L below the diagonal of LU and U from it on, for matrices of any shape, float32 or float64.

    L has ones on its diagonal. Row i was exchanged with row pivots[i] - 1, in that order. info is 0, or the number of
    the first zero on U's diagonal, for which `check_errors` raises LinAlgError. On CUDA square matrices of up to
    32 rows, and large batches, are factorized at once, others one by one, each with a synchronization.

    >>> ag.linalg.lu_factor_ex(ag.tensor([[1.0, 2.0], [4.0, 4.0]]))
    lu_factor_ex_result(LU=tensor([[4.  , 4.  ],
            [0.25, 1.  ]]), pivots=tensor([2, 2], dtype=int32), info=tensor(0, dtype=int32))
    """

    no_capture = "cuSOLVER"
    forward = _packed
    grad_a = _packed_back
    parameter_names = ("A",)
    outputs, nondiff_outputs = ("LU", "pivots", "info"), ("pivots", "info")
    jvp, batch = _packed_jvp, MATRICES
    public = "linalg.lu_factor_ex"
    no_lossy_save = True


def _exchanged(rows, swaps):
    order = list(range(rows))
    for i, j in enumerate(swaps):
        order[i], order[j - 1] = order[j - 1], order[i]
    return order


def _row_order(xp, pivots, *, rows, inverse=False):
    """The row order from the pivots, computed on the host: a few integers per matrix."""
    swaps = backend.to_numpy(pivots)
    if swaps.size and not 1 <= swaps.min() <= swaps.max() <= rows:
        raise RuntimeError(f"pivots must be between 1 and the number of rows, {rows}; got {swaps.min()} to "
                           f"{swaps.max()}. Are they those that lu_factor gave with this LU?")
    orders = [_exchanged(rows, row) for row in swaps.reshape(math.prod(swaps.shape[:-1]), swaps.shape[-1]).tolist()]
    order = np.array(orders, np.int64).reshape(*swaps.shape[:-1], rows)
    order = order.argsort(-1) if inverse else order
    return backend.to_device(order, backend.device_of(pivots))


@defop
class row_order:
    """The row order from the pivots of `linalg.lu_factor` for a matrix of `rows` rows: L U = a[order].

    With `inverse` the inverse permutation: a = (L U)[order].

    >>> from autograd_gpu.ops.linalg.lu import row_order
    >>> row_order(ag.tensor([2, 2, 3]), 3)
    tensor([1, 0, 2])
    """

    no_capture = "host"
    forward = _row_order
    nondiff = True
    batch = LEADING


# ---- unpacked factors ----------------------------------------------------------------------------------


def _unpacked(xp, LU, pivots, *, unpack_data=True, unpack_pivots=True):
    check_matrix("torch.lu_unpack", LU)
    m, n = LU.shape[-2:]
    k = min(m, n)
    permutation = lower = upper = xp.empty((0,), LU.dtype)
    if unpack_data:
        lower = RAW.tril(LU[..., :k], -1) + xp.eye(m, k, dtype=LU.dtype)
        upper = RAW.triu(LU[..., :k, :])
    if unpack_pivots:
        permutation = xp.eye(m, dtype=LU.dtype)[RAW.row_order(pivots, m)].swapaxes(-1, -2)
    return permutation, lower, upper


def _unpacked_back(F, g, LU_shape):
    _, g_lower, g_upper = g
    k = min(LU_shape[-2:])
    parts = []
    if g_lower is not None:
        parts.append(F.basic_index_backward(F.tril(g_lower, -1), (..., slice(k)), LU_shape))
    if g_upper is not None:
        parts.append(F.basic_index_backward(F.triu(g_upper), (..., slice(k), slice(None)), LU_shape))
    return sum(parts[1:], parts[0])


def _unpacked_jvp(F, t, LU_shape, unpack_data):
    if not unpack_data:
        return None
    k = min(LU_shape[-2:])
    lower, upper = F.basic_index(t[0], (..., slice(k))), F.basic_index(t[0], (..., slice(k), slice(None)))
    return None, F.tril(lower, -1), F.triu(upper)


def _unpacked_batch(F, n, batched, LU, pivots, *, unpack_data, unpack_pivots):
    def run(LU, pivots): return F.lu_unpack(LU, pivots, unpack_data, unpack_pivots)
    if rank(LU, batched[0]) < 2:
        return one_by_one(F, "lu_unpack", run, n, batched, (LU, pivots))
    parts = run(*expanded(F, n, batched, (LU, pivots)))
    asked = (unpack_pivots, unpack_data, unpack_data)
    return tuple(x if there else F.expand(x, (n, 0)) for x, there in zip(parts, asked, strict=True))


@defop
class lu_unpack:
    """(P, L, U) from the result of `linalg.lu_factor`: P @ L @ U is the matrix; what is not requested is empty.

    >>> ag.lu_unpack(*ag.linalg.lu_factor(ag.tensor([[1.0, 2.0], [4.0, 4.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """

    forward = _unpacked
    grad_LU = _unpacked_back
    integral = ("pivots",)
    parameter_names = ("LU_data", "LU_pivots")
    outputs, nondiff_outputs = ("P", "L", "U"), ("P",)
    jvp, batch = _unpacked_jvp, _unpacked_batch
    public = True


lu_factor_result = namedtuple("lu_factor_result", ("LU", "pivots"))


@public("linalg.lu_factor", out=True)
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots) of `linalg.lu_factor_ex`; RuntimeError if U has a zero on its diagonal.

    >>> ag.linalg.lu_factor(ag.tensor([[1.0, 2.0], [4.0, 4.0]])).pivots
    tensor([2, 2], dtype=int32)
    """
    factors, pivots, info = lu_factor_ex(A, pivot)
    check_values(info, lambda info: raise_if_failed("torch.linalg.lu_factor", backend.to_numpy(info), _zero_pivot))
    return lu_factor_result(factors, pivots)


@public("linalg.lu", out=True)
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with P @ L @ U = a: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> ag.linalg.lu(ag.tensor([[1.0, 2.0], [4.0, 4.0]])).L
    tensor([[1.  , 0.  ],
            [0.25, 1.  ]])
    """
    factors, pivots, _ = lu_factor_ex(A, pivot)
    return lu_unpack(factors, pivots)


@public("linalg.lu_solve", out=True)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """x with a @ x = B, or x @ a = B if not `left`, from `linalg.lu_factor(a)`; with `adjoint` for a.mT instead of a.

    >>> ag.linalg.lu_solve(*ag.linalg.lu_factor(ag.tensor([[2.0, 0.0], [0.0, 4.0]])), ag.tensor([[2.0], [8.0]]))
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.lu_solve", LU, B, left)
    if not left:
        return contiguous(mT(lu_solve(LU, pivots, mT(B), adjoint=not adjoint)))
    if adjoint:
        x = solve_triangular(mT(LU), B, upper=False)
        x = solve_triangular(mT(LU), x, upper=True, unitriangular=True)
        return _reordered(RECORD, x, row_order(pivots, LU.shape[-1], True))
    x = solve_triangular(LU, _reordered(RECORD, B, row_order(pivots, LU.shape[-1])), upper=False, unitriangular=True)
    return solve_triangular(LU, x, upper=True)
