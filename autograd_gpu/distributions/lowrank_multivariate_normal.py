"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import linalg, ops
from ..core.tensor import Tensor
from . import constraints
from .bases import Symmetric
from .multivariate_normal import _batch_mahalanobis, _batch_mv, half_log_det
from .utils import _standard_normal, lazy_property


def _add_identity(matrix: Tensor) -> Tensor:
    return matrix + ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of the capacitance 1 + W^T D^-1 W."""
    return linalg.cholesky(_add_identity((W.mT / D.unsqueeze(-2)) @ W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """log det(W W^T + D), by the determinant of the capacitance."""
    return 2 * half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x, by Woodbury's formula."""
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(W.mT / D.unsqueeze(-2), x))


class LowRankMultivariateNormal(Symmetric):
    """Normal distributions of vectors with mean `loc` (*batch, d) and covariance W W^T + diag(D).

    `cov_factor` is W (*batch, d, rank), and `cov_diag` is D (*batch, d), positive. Only matrices (rank, rank) are
    factorized. ValueError for shapes that do not fit.

    >>> from autograd_gpu.distributions import LowRankMultivariateNormal
    >>> LowRankMultivariateNormal(ag.zeros(2), ag.tensor([[1.0], [0.0]]), ag.ones(2)).covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _ag_keeps = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.ndim < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = ops.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag "
                             f"{cov_diag.shape}") from error  # fmt: skip
        self.loc = loc.expand((*batch_shape, *event_shape))
        self.cov_factor = cov_factor.expand((*batch_shape, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch_shape, *event_shape))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    @lazy_property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, by that of 1 + D^-1/2 W W^T D^-1/2, which is well conditioned."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._matrix(root * linalg.cholesky(_add_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        W = self._unbroadcasted_cov_factor
        return self._matrix(W @ W.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        A = self._whitened_factor()
        return self._matrix(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - A.mT @ A)

    def _whitened_factor(self) -> Tensor:
        """A = C^-1/2 W^T D^-1 with the capacitance C, so that the inverse of the covariance is D^-1 - A^T A."""
        right = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return linalg.solve_triangular(self._capacitance_tril, right, upper=False)

    def _matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, dtype, device = self._extended_shape(sample_shape), self.loc.dtype, self.loc.device
        common = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), dtype, device)
        own = self._unbroadcasted_cov_diag.sqrt() * _standard_normal(shape, dtype, device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, common) + own

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def _mahalanobis(self, x: Tensor) -> Tensor:
        return _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, x, self._capacitance_tril
        )

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        distance = self._mahalanobis(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        constant = self._event_shape[0] * (1 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)
