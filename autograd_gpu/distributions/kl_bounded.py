"""Kullback-Leibler divergences from and to the continuous Bernoulli and the Pareto distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .beta import Beta
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .kl_continuous import _infinite, _to_normal
from .kl_gamma import _mean_log, _to_exponential, _to_gamma
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .uniform import Uniform

# Pairs where p has values that q has not.
_INFINITE: list[tuple[type, type]] = [
    *((p, ContinuousBernoulli) for p in (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
    *((p, Pareto) for p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal)),
    (Pareto, Beta), (Pareto, Uniform),
]  # fmt: skip
for _pair in _INFINITE:
    register_kl(*_pair)(_infinite)
register_kl(ContinuousBernoulli, Normal)(_to_normal)
register_kl(ContinuousBernoulli, Exponential)(_to_exponential)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    """By the mean of p."""
    return q._log_normalizer(q.logits) - p.mean * q.logits - p.entropy()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    return ops.where((p.low < 0) | (p.high > 1), math.inf, _to_continuous_bernoulli(p, q))


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    finite = (q.high - q.low).log() - p.entropy()
    return ops.where((q.low > 0) | (q.high < 1), math.inf, finite)


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    finite = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, finite)


def _with_moments(p: Pareto, n: int, formula: Callable[[Pareto], Tensor]) -> Tensor:
    """The formula where p has its first n moments, and else infinity."""
    exists = p.alpha > n
    light = Pareto(p.scale, ops.where(exists, p.alpha, n + 1.0), validate_args=False)
    return ops.where(exists, formula(light), math.inf)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _with_moments(p, 1, lambda light: _to_exponential(light, q))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    return _with_moments(p, 1, lambda light: _to_gamma(light, q, light.scale.log() + light.alpha.reciprocal()))


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return _with_moments(p, 2, lambda light: _to_normal(light, q))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    finite = (q.alpha + 1) * _mean_log(p.low, p.high) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return ops.where(p.low < q.scale, math.inf, finite)
