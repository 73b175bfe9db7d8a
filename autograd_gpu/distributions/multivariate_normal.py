"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import linalg, ops
from ..core.size import Size
from ..core.tensor import Tensor
from . import constraints
from .bases import Symmetric
from .utils import _standard_normal, lazy_property

# What each of the three matrices is called in errors.
_MATRICES = {
    "covariance_matrix": "covariance_matrix", "precision_matrix": "precision_matrix", "scale_tril": "scale_tril matrix",
}  # fmt: skip


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """The products of matrices (*batch, m, n) and vectors (*batch, n)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(scale_tril: Tensor, difference: Tensor) -> Tensor:
    """|L^-1 x|^2 for lower triangular L (*batch, d, d) and x (*samples, *batch, d); one solution serves all samples."""
    samples = difference.shape[: difference.ndim - scale_tril.ndim + 1]
    batch = difference.shape[len(samples) : -1]
    columns = difference.reshape(samples.numel(), *batch, difference.shape[-1]).movedim(0, -1)
    solved = linalg.solve_triangular(scale_tril, columns, upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(samples + batch)


def _precision_to_scale_tril(matrix: Tensor) -> Tensor:
    """The lower triangular L with L L^T = matrix^-1, without computing the inverse."""
    reversed_factor = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT  # matrix = U U^T, of which this is U^T
    unit = ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return linalg.solve_triangular(reversed_factor, unit, upper=False)


def half_log_det(scale_tril: Tensor) -> Tensor:
    """log det L of lower triangular matrices, half of that of L L^T."""
    return scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Symmetric):
    """Normal distributions of vectors with mean `loc` (*batch, d) and one of three matrices (*batch, d, d).

    `covariance_matrix` and `precision_matrix` are positive definite, and `scale_tril` is lower triangular with a
    positive diagonal, the Cholesky factor of the covariance; with it nothing needs to be factorized. ValueError unless
    exactly one is given; LinAlgError for a matrix that is not positive definite, if arguments are not checked.

    >>> from autograd_gpu.distributions import MultivariateNormal
    >>> MultivariateNormal(ag.zeros(2), ag.eye(2)).log_prob(ag.tensor([[0.0, 0.0], [1.0, 0.0]]))
    tensor([-1.8379, -2.3379])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _ag_keeps = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        forms = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril, "precision_matrix": precision_matrix}
        matrices = {name: matrix for name, matrix in forms.items() if matrix is not None}
        if len(matrices) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = matrices.items()
        if matrix.ndim < 2:
            raise ValueError(f"{_MATRICES[name]} must be at least two-dimensional, with optional leading batch "
                             "dimensions")  # fmt: skip
        batch_shape = Size(ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        self.loc = loc.expand(batch_shape + loc.shape[-1:])
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = FACTORS[name](matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._matrix(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._matrix(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        distance = self._mahalanobis(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def _log_det(self) -> Tensor:
        """log det of the covariance."""
        return 2 * half_log_det(self._unbroadcasted_scale_tril)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        """x^T covariance^-1 x"""
        return _batch_mahalanobis(self._unbroadcasted_scale_tril, x)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def _itself(matrix: Tensor) -> Tensor:
    return matrix


# How the Cholesky factor of the covariance follows from each matrix.
FACTORS: dict[str, Any] = {
    "covariance_matrix": linalg.cholesky, "precision_matrix": _precision_to_scale_tril, "scale_tril": _itself,
}  # fmt: skip
