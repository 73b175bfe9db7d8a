"""KL divergences of distributions of real numbers, and of distributions made of others. Imported for what it registers.

KL(p || q) = -H(p) - E_p[log q(x)]. Between different families the expectation is written once for each q, by moments
of p: `_to_normal`, `_to_exponential`, ...; it is infinite where p has values outside of q's support.
"""

from __future__ import annotations

import math
from typing import Any

from .. import linalg, ops
from ..core.tensor import Tensor
from .cauchy import Cauchy
from .exponential import Exponential
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .multivariate_normal import MultivariateNormal, half_log_det, squared_mahalanobis
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import euler_constant, sum_rightmost

# ---- of one family -----------------------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be "
                         f"computed: {p.event_shape} and {q.event_shape}")  # fmt: skip
    factor_p, factor_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    trace = linalg.solve_triangular(factor_q, factor_p, upper=False).square().sum((-2, -1))
    distance = squared_mahalanobis(factor_q, q.loc - p.loc)
    return half_log_det(factor_q) - half_log_det(factor_p) + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, https://arxiv.org/abs/1905.10965."""
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + euler_constant * (ratio - 1) - 1 + (ops.lgamma(1 + ratio) - shift).exp()


# ---- of different families ---------------------------------------------------------------------------------------


@register_kl(Exponential, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    distance = (p.variance + (p.mean - q.loc).square()) / (2 * q.scale.square())
    return distance + q.scale.log() + 0.5 * math.log(2 * math.pi) - p.entropy()


@register_kl(Uniform, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    """For p whose values are positive, or a uniform p, which may have others."""
    found = q.rate * p.mean - q.rate.log() - p.entropy()
    return ops.where(p.low < 0, math.inf, found) if isinstance(p, Uniform) else found


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """By the mean of a folded normal variable."""
    z = (p.loc - q.loc) / p.scale
    distance = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + z * ops.erf(z / math.sqrt(2)))
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


def _to_gumbel(p: Any, q: Gumbel, transform: Tensor) -> Tensor:
    """By the mean of p and its Laplace transform E[exp(-x / q.scale)]."""
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * transform - p.entropy()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, (0.5 * (p.scale / q.scale).square() - p.loc / q.scale).exp())


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    rate = p.rate * q.scale
    return _to_gumbel(p, q, rate / (rate + 1))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    low, high = p.low / q.scale, p.high / q.scale
    return _to_gumbel(p, q, ((-low).exp() - (-high).exp()) / (high - low))


@register_kl(Exponential, Uniform)
@register_kl(Gumbel, Exponential)
@register_kl(Gumbel, Uniform)
@register_kl(Laplace, Exponential)
@register_kl(Laplace, Uniform)
@register_kl(Normal, Exponential)
@register_kl(Normal, Uniform)
def _infinite(p: Any, q: Any) -> Tensor:
    """p has values where q has none."""
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ops.full(shape, math.inf, dtype=p.mean.dtype, device=p.mean.device)


# ---- of distributions made of others -----------------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independents needs equal reinterpreted_batch_ndims, got "
                                  f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")  # fmt: skip
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """The same bijection of both changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs equal transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)
