"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops
from ..core.tensor import Tensor
from .bases import LocationScale


class Cauchy(LocationScale):
    """Cauchy (Lorentz) distributions with median `loc` and `scale`, half of the width at half of the maximum.

    Mean and variance do not exist: they are NaN and infinite.

    >>> from autograd_gpu.distributions import Cauchy
    >>> Cauchy(0.0, 1.0).cdf(ag.tensor([-1.0, 0.0, 1.0]))
    tensor([0.25, 0.5 , 0.75])
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        lower = value < 0.5
        cotangent = ops.tan(math.pi * ops.where(lower, value, 1 - value)).reciprocal()
        return self.loc + self.scale * ops.where(lower, -cotangent, cotangent)

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
