"""LU factors with row exchanges: P L U = a."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from .. import backend
from ..core.dispatch import defop
from ..core.op import RECORD
from ..core.tensor import Tensor
from .creation import eye
from .matrices import check_matrix, check_system, info_array, refuse
from .rearrange import tril, triu
from .shape import mT
from .triangular import solve_triangular

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
        refuse("torch.linalg.lu_factor_ex", info, _zero_pivot)
    return factors, pivots, info_array(info, a)


def _packed_back(F, g, LU, pivots):
    """With a[order] = L U, square parts L1 and U1, the others L2 and U2 (at most one is there):

    L1⁻ᵀ (tril(L1ᵀ gL1 - gU2 U2ᵀ, -1) + triu(gU1 U1ᵀ - L2ᵀ gL2)) U1⁻ᵀ,  beside it L1⁻ᵀ gU2, below it gL2 U1⁻ᵀ.
    """
    g = g[0]
    m, n = LU.shape[-2:]
    k = min(m, n)

    def corner(x): return F.basic_index(x, (..., slice(k), slice(k)))
    def right(x): return F.basic_index(x, (..., slice(k), slice(k, None)))
    def below(x): return F.basic_index(x, (..., slice(k, None), slice(k)))

    square, g1 = corner(LU), corner(g)
    lower = F.tril(square, -1) + F.diagonal_backward(F.constant_like(F.diagonal(square, 0, -2, -1), 1.0),
                                                     square.shape, 0, -2, -1)  # fmt: skip
    lt, ut = F.mT(lower), F.mT(F.triu(square))
    strict, rest = F.gemm(lt, F.tril(g1, -1)), F.gemm(F.triu(g1), ut)
    if n > k:
        strict = strict - F.gemm(right(g), right(LU), False, True)
    if m > k:
        rest = rest - F.gemm(below(LU), below(g), True, False)
    out = F.solve_triangular(lt, F.tril(strict, -1) + F.triu(rest), True)
    out = F.solve_triangular(ut, out, False, False)
    if n > k:
        out = F.cat([out, F.solve_triangular(lt, right(g), True)], -1)
    if m > k:
        out = F.cat([out, F.solve_triangular(ut, below(g), False, False)], -2)
    return _reordered(F, out, F.argsort(F.row_order(pivots, m)))


def _reordered(F, x, order):
    """Row i of the result is row order[i] of x, for each matrix."""
    batch = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = F.expand(x, (*batch, *x.shape[-2:]))
    return F.gather_along(x, F.expand(F.unsqueeze(order, -1), x.shape), -2)


@defop
class lu_factor_ex:
    """(LU, pivots, info): L below the diagonal of LU and U from it on, for matrices of any shape, float32 or float64.

    L has ones on its diagonal. Row i was exchanged with row pivots[i] - 1, in that order. info is 0, or the number of
    the first zero on U's diagonal, for which `check_errors` raises LinAlgError.

    >>> ag.linalg.lu_factor_ex(ag.tensor([[1.0, 2.0], [4.0, 4.0]]))
    lu_factor_ex_result(LU=tensor([[4.  , 4.  ],
            [0.25, 1.  ]]), pivots=tensor([2, 2], dtype=int32), info=tensor(0, dtype=int32))
    """

    forward = _packed
    grad_a = _packed_back
    outputs, nondiff_outputs = ("LU", "pivots", "info"), ("pivots", "info")


def _row_order(xp, pivots, *, rows):
    """By exchanging rows on the host: it is the same few integers for every column."""
    swaps = backend.to_numpy(pivots)
    flat = swaps.reshape(-1, swaps.shape[-1]) - 1
    order = np.tile(np.arange(rows, dtype=np.int64), (len(flat), 1))
    batch = np.arange(len(flat))
    for i, j in enumerate(flat.T):
        order[batch, i], order[batch, j] = order[batch, j], order[batch, i]
    return backend.to_device(order.reshape(*swaps.shape[:-1], rows), backend.device_of(pivots))


@defop
class row_order:
    """Which of `rows` rows of a each row of L U is, from the pivots of `linalg.lu_factor`: L U = a[order].

    >>> from autograd_gpu.ops.lu import row_order
    >>> row_order(ag.tensor([2, 2, 3]), 3)
    tensor([1, 0, 2])
    """

    forward = _row_order


# ---- the public functions -----------------------------------------------------------------------------

lu_factor_result = namedtuple("lu_factor_result", ("LU", "pivots"))
lu_result = namedtuple("lu_result", ("P", "L", "U"))


def lu_factor(a: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots) of `linalg.lu_factor_ex`; RuntimeError for a matrix whose factor U has a zero on its diagonal.

    >>> ag.linalg.lu_factor(ag.tensor([[1.0, 2.0], [4.0, 4.0]])).pivots
    tensor([2, 2], dtype=int32)
    """
    factors, pivots, info = lu_factor_ex(a, pivot)
    refuse("torch.linalg.lu_factor", backend.to_numpy(info._array), _zero_pivot)
    return lu_factor_result(factors, pivots)


def lu_unpack(LU: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) from the result of `linalg.lu_factor`; None for those that are not asked for.

    >>> ag.lu_unpack(*ag.linalg.lu_factor(ag.tensor([[1.0, 2.0], [4.0, 4.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    m, n = LU.shape[-2:]
    k = min(m, n)
    lower = upper = permutation = None
    if unpack_data:
        lower = tril(LU[..., :k], -1) + eye(m, k, dtype=LU.dtype, device=LU.device)
        upper = triu(LU[..., :k, :])
    if unpack_pivots:
        permutation = mT(eye(m, dtype=LU.dtype, device=LU.device)[row_order(pivots, m)])
    return lu_result(permutation, lower, upper)


def lu(a: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with P @ L @ U = a: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> ag.linalg.lu(ag.tensor([[1.0, 2.0], [4.0, 4.0]])).L
    tensor([[1.  , 0.  ],
            [0.25, 1.  ]])
    """
    factors, pivots, _ = lu_factor_ex(a, pivot)
    return lu_unpack(factors, pivots)


def lu_solve(LU: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """x with a @ x = b, or x @ a = b if not `left`, from `linalg.lu_factor(a)`; with `adjoint` for a.mT in a's place.

    >>> ag.linalg.lu_solve(*ag.linalg.lu_factor(ag.tensor([[2.0, 0.0], [0.0, 4.0]])), ag.tensor([[2.0], [8.0]]))
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.lu_solve", LU, b, left)
    if not left:
        return mT(lu_solve(LU, pivots, mT(b), adjoint=not adjoint))
    order = row_order(pivots, LU.shape[-1])
    if adjoint:
        x = solve_triangular(mT(LU), b, upper=False)
        x = solve_triangular(mT(LU), x, upper=True, unitriangular=True)
        return _reordered(RECORD, x, order.argsort())
    x = solve_triangular(LU, _reordered(RECORD, b, order), upper=False, unitriangular=True)
    return solve_triangular(LU, x, upper=True)
