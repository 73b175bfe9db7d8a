"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from .. import ops
from ..core.tensor import Tensor
from .bases import Half
from .cauchy import Cauchy


class HalfCauchy(Half):
    """The distributions of |x| for Cauchy x with median 0 and `scale`. The mean is infinite.

    >>> from autograd_gpu.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(ag.tensor(1.0))
    tensor(0.5)
    """

    _of = Cauchy

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return ops.atan(value / self.scale) * (2 / math.pi)
