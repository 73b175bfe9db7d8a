"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from .. import ops, random
from ..core.tensor import Tensor
from . import constraints
from .bases import ExponentialFamily, ProbsOrLogits
from .utils import clamp_probs, lazy_property, logits_to_probs

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_COTH = [4**n * b / math.factorial(2 * n) for n, b in enumerate(_BERNOULLI, 1)]  # of h, h^3, ... in coth h - 1 / h
_SERIES_BELOW = 0.5
_NEARLY_UNIFORM = 1e-3  # logits below which cdf and icdf are series, whose gradients keep their digits


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Distributions on [0, 1] with density ~ probs ** x * (1 - probs) ** (1 - x); `logits` as of Bernoulli.

    Loaiza-Ganem and Cunningham 2019. ValueError unless exactly one of probs and logits is given. `lims` is PyTorch's
    range of probabilities in which its formulas lose digits; those here do not, and need none.

    >>> from autograd_gpu.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(ag.tensor([0.5, 0.9])).mean
    tensor([0.5   , 0.6699])
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _ag_keeps = ("_lims",)

    def __init__(
        self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        self._set_one(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def mean(self) -> Tensor:
        return 0.5 + 0.5 * _by_size(
            0.5 * self.logits, lambda h: h * _series(h, _COTH), lambda h: h.tanh().reciprocal() - h.reciprocal()
        )

    @property
    def variance(self) -> Tensor:
        slopes = [(2 * n + 1) * c for n, c in enumerate(_COTH)]
        return 0.25 * _by_size(0.5 * self.logits, lambda h: _series(h, slopes), _bounded_slope)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(random.rand(shape, dtype=self._param.dtype, device=self._param.device))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return value * self.logits - self._log_normalizer(self.logits)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        """expm1(x * logits) / expm1(logits), without overflow."""
        x, logits = value.clamp(min=0, max=1), self.logits
        small, n = self._split()
        rising = ops.where(logits > 0, (n * (1 - x)).exp(), 1.0) * (n * x).expm1() / n.expm1()
        third = 1 + logits / 6 * (2 * x - 1) + logits.square() / 12 * x * (x - 1)
        inside = ops.where(small, x + 0.5 * logits * x * (x - 1) * third, rising)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        logits, (small, n) = self.logits, self._split()
        v, w = ops.where(logits > 0, 1 - value, value), ops.where(logits > 0, value, 1 - value)
        steep = n < -1
        inner = ops.where(steep, 0.0, v * n.expm1()).log1p()
        root = ops.where(steep, (w + v * n.exp()).log(), inner) / n
        nearly = value + 0.5 * logits * value * (1 - value) * (1 - logits / 3 * (2 * value - 1))
        return ops.where(small, nearly, ops.where(logits > 0, 1 - root, root))

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the distribution is nearly uniform, and -|logits|, -1 there."""
        small = self.logits.abs() < _NEARLY_UNIFORM
        return small, ops.where(small, -1.0, -self.logits.abs())

    def entropy(self) -> Tensor:
        return self._log_normalizer(self.logits) - self.logits * self.mean

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """log(expm1(x) / x)"""
        (x,) = natural_params
        integrals = [c / (2 * n) for n, c in enumerate(_COTH, 1)]
        return 0.5 * x + _by_size(0.5 * x, lambda h: h.square() * _series(h, integrals), _log_sinh_ratio)


def _series(h: Tensor, coefficients: list[float]) -> Tensor:
    """c0 + c1 * h^2 + c2 * h^4 + ..."""
    square, total = h.square(), ops.full_like(h, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * square + c
    return total


def _by_size(h: Tensor, small: Callable[[Tensor], Tensor], large: Callable[[Tensor], Tensor]) -> Tensor:
    """small(h) near 0, and elsewhere large(h)."""
    near = h.abs() < _SERIES_BELOW
    return ops.where(near, small(ops.where(near, h, 0.0)), large(ops.where(near, 1.0, h)))


def _log_sinh_ratio(h: Tensor) -> Tensor:
    """log(sinh(h) / h)"""
    size = h.abs()
    return size + (-(-2 * size).exp()).log1p() - (2 * size).log()


def _bounded_slope(h: Tensor) -> Tensor:
    """1 / h^2 - 1 / sinh(h)^2, the derivative of coth h - 1 / h."""
    decay = -2 * h.abs()
    return h.square().reciprocal() - 4 * decay.exp() / decay.expm1().square()
