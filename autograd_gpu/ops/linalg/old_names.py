"""PyTorch's older functions for decompositions and triangular systems; those of `linalg` are to be preferred."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.extend import Tensor, public
from ..creation.like import new_zeros
from . import lu as lu_module
from . import qr as qr_module
from . import svd as svd_module
from .cholesky import solve_triangular


class svd_result(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    V: Tensor


@public(methods=True, out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with U @ diag(S) @ V.mT = input; prefer `linalg.svd`, which returns V transposed.

    With `some` U and V have min(m, n) columns, else they are square. Without `compute_uv` they are square and zero.

    >>> ag.svd(ag.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = input.shape[:-2]
        values = svd_module.svdvals(input)
        return svd_result(new_zeros(input, *batch, m, m), values, new_zeros(input, *batch, n, n))
    U, S, Vh = svd_module.svd(input, not some)
    return svd_result(U, S, Vh.mT)


class qr_result(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


@public(methods=True, out=True)
def qr(input: Tensor, some: bool = True) -> Any:
    """(Q, R) with Q @ R = input; `some` is mode "reduced" of `linalg.qr`, which to prefer, else mode "complete".

    >>> ag.qr(ag.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    return qr_result(*qr_module.qr(input, "reduced" if some else "complete"))


@public(methods=True, out=True)
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots) as `linalg.lu_factor` returns them, and with `get_infos` (LU, pivots, info); never raises.

    >>> ag.lu(ag.tensor([[1.0, 2.0], [4.0, 4.0]]))[1]
    tensor([2, 2], dtype=int32)
    """
    factors, pivots, info = lu_module.lu_factor_ex(A, pivot)
    return (factors, pivots, info) if get_infos else (factors, pivots)


@public(methods=True, out=True)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` with the right-hand side first.

    >>> ag.lu_solve(ag.tensor([[2.0], [8.0]]), *ag.lu(ag.tensor([[2.0, 0.0], [0.0, 4.0]])))
    tensor([[1.],
            [2.]])
    """
    return lu_module.lu_solve(LU_data, LU_pivots, input)


class triangular_solve_result(NamedTuple):
    """The result of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


@public(methods=True, out=True)
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(x, a copy of A) with A @ x = b for a triangular A, or A.mT @ x = b; `linalg.solve_triangular` makes no copy.

    >>> ag.triangular_solve(ag.tensor([[4.0]]), ag.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    matrix = A.mT if transpose else A
    solution = solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    return triangular_solve_result(solution, A.clone())
