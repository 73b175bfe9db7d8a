"""PyTorch's older functions for decompositions: `svd` with V instead of its transpose, and `qr` with `some`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.extend import Tensor, public
from ..creation.like import new_zeros
from . import qr as qr_module
from . import svd as svd_module


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
