"""Kullback-Leibler divergences of distributions of integers and of one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..nn import functional as F
from .bernoulli import Bernoulli
from .binomial import Binomial
from .categorical import Categorical
from .geometric import Geometric
from .kl import register_kl
from .one_hot_categorical import OneHotCategorical
from .poisson import Poisson


def _share(weight: Tensor, ratio: Tensor, impossible: Tensor) -> Tensor:
    """weight * ratio: 0 where the weight is, and otherwise infinite where q says impossible."""
    return ops.where(weight == 0, 0.0, ops.where(impossible, math.inf, weight * ratio))


@register_kl(Bernoulli, Bernoulli)
def _of_trial(p: Any, q: Any) -> Tensor:
    """Of one trial, by probabilities and logits."""
    ones = _share(p.probs, F.logsigmoid(p.logits) - F.logsigmoid(q.logits), q.probs == 0)
    zeros = _share(1 - p.probs, F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits), q.probs == 1)
    return ones + zeros


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - ops.xlogy(p.probs, q.rate) - p.entropy()


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    """Infinite where p has more trials; NotImplementedError where it has fewer."""
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )  # fmt: skip
    total = _share(p.total_count, _of_trial(p, q), q.total_count < 0)
    return ops.where(p.total_count > q.total_count, math.inf, total)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    return _share(p.probs, p.logits - q.logits, q.probs == 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return _of_trial(p, q) / p.probs


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _infinite(p: Poisson, q: Any) -> Tensor:
    """p has values where q has none."""
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ops.full(shape, math.inf, dtype=p.rate.dtype, device=p.rate.device)
