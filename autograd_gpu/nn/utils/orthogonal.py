"""Orthogonal matrices as a parametrization."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...ops import cat, eye, matrix_exp
from ...ops.binding import MODULES
from ...random import randn
from ..module import Module
from . import parametrize

LINALG = MODULES["linalg"]
MAPS = ("matrix_exp", "cayley", "householder")


def _orthonormal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a QR decomposition whose R has a positive diagonal."""
    q, r = LINALG["qr"](matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A tall matrix with orthonormal columns, or a wide one with orthonormal rows, from an unconstrained one.

    With a `base` the result is base @ map(X), where X = -1 gives the base.
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map, self.has_base = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        result = self._map(X.mT if wide else X)
        if self.has_base:
            result = self.base @ result
        return result.mT if wide else result

    def _map(self, X: Tensor) -> Tensor:
        rows, columns = X.shape[-2:]
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            result: Tensor = LINALG["householder_product"](below, 2.0 / (1.0 + (below * below).sum(-2)))
            return result * X.detach().diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
        lower = X.tril()
        if rows != columns:
            lower = cat([lower, X.new_zeros((*X.shape[:-1], rows - columns))], -1)
        skew = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(skew)[..., :columns]
        one = eye(rows, dtype=X.dtype, device=X.device)
        solved: Tensor = LINALG["solve"](one - skew / 2, one + skew / 2)
        return solved[..., :columns]

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{Q.shape}.")
        if not self.has_base:
            raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                      "parametrizations when use_trivialization=False.")
        tall = Q.mT if Q.shape[-2] < Q.shape[-1] else Q
        rows, columns = tall.shape[-2:]
        if rows != columns:
            others = randn((*tall.shape[:-1], rows - columns), dtype=Q.dtype, device=Q.device)
            tall = cat([tall, others], -1)
        self.base = _orthonormal(tall.detach())
        start = Q.new_zeros(Q.shape)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Makes module.<name> a matrix, or a batch of them, with orthonormal columns, or rows if there are fewer.

    `orthogonal_map` is "matrix_exp" (default for square matrices), "cayley" or "householder" (default for others).
    With `use_trivialization` (Lezcano-Casado 2019) a matrix can be assigned, and the present one is the start.
    ValueError for fewer than two dimensions, NotImplementedError for "householder" without `use_trivialization`.

    >>> layer = ag.nn.utils.parametrizations.orthogonal(ag.nn.Linear(3, 2))
    >>> bool(((layer.weight @ layer.weight.mT - ag.eye(2)).abs() < 1e-6).all())
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
                         f"{orthogonal_map}")
    if orthogonal_map == "householder" and not use_trivialization:
        raise NotImplementedError('orthogonal: "householder" needs use_trivialization=True here; or take "cayley"')
    return parametrize.register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True
    )
