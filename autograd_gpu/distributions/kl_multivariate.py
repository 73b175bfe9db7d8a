"""Kullback-Leibler divergences of multivariate normal distributions, with full and with low-rank covariances."""

from __future__ import annotations

from .. import linalg
from ..core.tensor import Tensor
from .kl import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal

Normals = MultivariateNormal | LowRankMultivariateNormal


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: Normals, q: Normals) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be "
                         f"computed: {p.event_shape} and {q.event_shape}")  # fmt: skip
    distance = q._mahalanobis(q.loc - p.loc)
    return 0.5 * (q._log_det() - p._log_det() + _trace(p, q) + distance - p.event_shape[0])


def _trace(p: Normals, q: Normals) -> Tensor:
    """tr(cov(q)^-1 cov(p))"""
    if isinstance(p, MultivariateNormal):
        return _trace_of_square(p._unbroadcasted_scale_tril, q)
    return _trace_of_square(p._unbroadcasted_cov_factor, q) + _trace_of_diagonal(p._unbroadcasted_cov_diag, q)


def _trace_of_square(matrix: Tensor, q: Normals) -> Tensor:
    """tr(cov(q)^-1 M M^T)"""
    if isinstance(q, MultivariateNormal):
        return linalg.solve_triangular(q._unbroadcasted_scale_tril, matrix, upper=False).square().sum((-2, -1))
    scaled = matrix.square() / q._unbroadcasted_cov_diag.unsqueeze(-1)
    return scaled.sum((-2, -1)) - (q._whitened_factor() @ matrix).square().sum((-2, -1))


def _trace_of_diagonal(diagonal: Tensor, q: Normals) -> Tensor:
    """tr(cov(q)^-1 diag(d))"""
    if isinstance(q, MultivariateNormal):
        return _trace_of_square(diagonal.sqrt().diag_embed(), q)
    scaled = q._whitened_factor().square() * diagonal.unsqueeze(-2)
    return (diagonal / q._unbroadcasted_cov_diag).sum(-1) - scaled.sum((-2, -1))
