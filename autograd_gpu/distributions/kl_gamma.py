"""Kullback-Leibler divergences from and to the gamma, beta and Dirichlet distributions."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .beta import Beta
from .dirichlet import Dirichlet, log_beta_of_vectors
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .kl_continuous import _infinite, _to_gumbel, _to_normal
from .laplace import Laplace
from .normal import Normal
from .uniform import Uniform
from .utils import euler_constant, in_float64, log_beta

# Pairs where p has values that q has not.
_INFINITE: list[tuple[type, type]] = [
    (Exponential, Beta), (Gamma, Beta), (Gamma, Uniform), (Gumbel, Beta), (Gumbel, Gamma), (Laplace, Beta),
    (Laplace, Gamma), (Normal, Beta), (Normal, Gamma),
]  # fmt: skip
for _pair in _INFINITE:
    register_kl(*_pair)(_infinite)
register_kl(Beta, Normal)(_to_normal)
register_kl(Gamma, Normal)(_to_normal)


# ---- of one family -----------------------------------------------------------------------------------------------


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    def formula(a: Tensor, b: Tensor, rate_p: Tensor, rate_q: Tensor) -> Tensor:
        rates = b * (rate_p / rate_q).log() + (rate_q - rate_p) * (a / rate_p)
        return rates + (a - b) * ops.digamma(a) + ops.lgamma(b) - ops.lgamma(a)

    return in_float64(formula, p.concentration, q.concentration, p.rate, q.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    def formula(a: Tensor, b: Tensor) -> Tensor:
        mean_log = ops.digamma(a) - ops.digamma(a.sum(-1, keepdim=True))
        return log_beta_of_vectors(b) - log_beta_of_vectors(a) + ((a - b) * mean_log).sum(-1)

    return in_float64(formula, p.concentration, q.concentration)


@register_kl(Beta, Beta)
def _beta_beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet_dirichlet(p._dirichlet, q._dirichlet)


# ---- of different families ---------------------------------------------------------------------------------------


def _to_gamma(p: Any, q: Gamma, mean_log: Tensor) -> Tensor:
    """By the mean of p and of its logarithm."""
    a, rate = q.concentration, q.rate
    return rate * p.mean - (a - 1) * mean_log + ops.lgamma(a) - a * rate.log() - p.entropy()


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _to_gamma(p, q, -euler_constant - p.rate.log())


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    a, b = p.concentration1, p.concentration0
    return _to_gamma(p, q, ops.digamma(a) - ops.digamma(a + b))


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """The mean of log(x) for uniform x."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    return ops.where(p.low < 0, math.inf, _to_gamma(p, q, _mean_log(p.low, p.high)))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    of_logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    kl = log_beta(a, b) - of_logs - p.entropy()
    return ops.where((p.low < 0) | (p.high > 1), math.inf, kl)


@register_kl(Beta, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, q.loc / q.scale - p.concentration * (p.rate * q.scale).reciprocal().log1p())


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    kl = (q.high - q.low).log() - p.entropy()
    return ops.where((q.low > 0) | (q.high < 1), math.inf, kl)
