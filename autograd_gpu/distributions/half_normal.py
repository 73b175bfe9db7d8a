"""The half-normal distribution."""

from __future__ import annotations

import math

from .. import ops
from ..core.tensor import Tensor
from .bases import Half
from .normal import Normal


class HalfNormal(Half):
    """The distributions of |x| for normal x with mean 0 and standard deviation `scale`.

    >>> from autograd_gpu.distributions import HalfNormal
    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _of = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return ops.erf(value / (self.scale * math.sqrt(2)))
