"""KL divergences of distributions of real numbers, and of distributions made of others. Imported for what it registers.

KL(p || q) = -H(p) - E_p[log q(x)]. Between different families the expectation is written once for each q, by moments
of p: `_to_normal`, `_to_exponential`, ...; it is infinite where p has values outside of q's support.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .cauchy import Cauchy
from .exponential import Exponential
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

# ---- of one family -----------------------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio.square() + ((p.loc - q.loc) / q.scale).square() - 1) - ratio.log()


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


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
    distance = ops.hypot(p.scale + q.scale, p.loc - q.loc)
    return 2 * (0.5 * distance).log() - p.scale.log() - q.scale.log()


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
    distance = (p.stddev / q.scale).square() + ((p.mean - q.loc) / q.scale).square()
    return 0.5 * distance + q.scale.log() + 0.5 * math.log(2 * math.pi) - p.entropy()


@register_kl(Uniform, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    """For p whose values are positive, or a uniform p, which may have others."""
    kl = q.rate * p.mean - q.rate.log() - p.entropy()
    return ops.where(p.low < 0, math.inf, kl) if isinstance(p, Uniform) else kl


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """By the mean of a folded normal variable."""
    shift = p.loc - q.loc
    z = shift / p.scale
    distance = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + shift * ops.erf(z / math.sqrt(2))
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


def _to_gumbel(p: Any, q: Gumbel, log_transform: Tensor) -> Tensor:
    """By the mean of p and log E[exp(-(x - q.loc) / q.scale)]."""
    return q.scale.log() + (p.mean - q.loc) / q.scale + log_transform.exp() - p.entropy()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, 0.5 * (p.scale / q.scale).square() - (p.loc - q.loc) / q.scale)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, q.loc / q.scale - (p.rate * q.scale).reciprocal().log1p())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width = (p.high - p.low) / q.scale
    return _to_gumbel(p, q, (-(-width).expm1() / width).log() - (p.low - q.loc) / q.scale)


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
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """The same bijection of both changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs equal transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)
