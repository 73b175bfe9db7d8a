"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops, random
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

_SMALL = 0.05  # below which twelve terms of a series are exact
_LOG1P = [(-1) ** k / (k + 1) for k in range(12)]
_EXPM1 = [1 / math.factorial(k + 1) for k in range(12)]


class GeneralizedPareto(Distribution):
    """Generalized Pareto distributions of what exceeds `loc`, with `scale` and the weight `concentration` of the tail.

    A concentration of 0 gives an exponential distribution; a negative one an upper end, loc - scale / concentration.

    >>> from autograd_gpu.distributions import GeneralizedPareto
    >>> GeneralizedPareto(0.0, 2.0, ag.tensor([0.0, -1.0, 1.0])).cdf(ag.tensor(1.0))
    tensor([0.3935, 0.5   , 0.3333])
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        bounded = self.concentration < 0
        end = self.loc - self.scale / ops.where(bounded, self.concentration, -1.0)
        return constraints.interval(self.loc, ops.where(bounded, end, math.inf))

    @property
    def mean(self) -> Tensor:
        """NaN for concentrations from 1 on."""
        finite = self.concentration < 1
        return ops.where(finite, self.loc + self.scale / (1 - ops.where(finite, self.concentration, 0.5)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """NaN for concentrations from 1 / 2 on."""
        finite = self.concentration < 0.5
        c = ops.where(finite, self.concentration, 0.25)
        return ops.where(finite, (self.scale / (1 - c)).square() / (1 - 2 * c), math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(random.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        z, c = (value - self.loc) / self.scale, self.concentration
        growth, small = c * z, (c * z).abs() < _SMALL
        uniform_end = (c == -1) & (z == 1)  # where 0 * log(0) is 0
        near, far = ops.where(small, growth, 0.0), ops.where(small | uniform_end, 0.0, growth)
        by_series = near.log1p() + z * _log1p_ratio(near)
        return -self.scale.log() - ops.where(small, by_series, (1 + 1 / ops.where(small, 1.0, c)) * far.log1p())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of larger numbers."""
        return self._ag_checked("log_survival_function", value)

    def _ag_log_survival_function(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return -z * _log1p_ratio(self.concentration * z)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log(cdf(value))"""
        return self.cdf(value).log()

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return -self._ag_log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        hazard = -(-value).log1p()
        return self.loc + self.scale * hazard * _expm1_ratio(self.concentration * hazard)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


def _log1p_ratio(x: Tensor) -> Tensor:
    """log1p(x) / x, and 1 at 0, with its derivatives."""
    small = x.abs() < _SMALL
    safe = ops.where(small, 1.0, x)
    return ops.where(small, _series(ops.where(small, x, 0.0), _LOG1P), safe.log1p() / safe)


def _expm1_ratio(x: Tensor) -> Tensor:
    """expm1(x) / x, and 1 at 0, with its derivatives."""
    small = x.abs() < _SMALL
    safe = ops.where(small, 1.0, x)
    return ops.where(small, _series(ops.where(small, x, 0.0), _EXPM1), safe.expm1() / safe)


def _series(x: Tensor, coefficients: list[float]) -> Tensor:
    """c0 + c1 * x + c2 * x^2 + ..."""
    total = ops.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total
