"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops, special
from ..core.tensor import Tensor
from .bases import ExponentialFamily, LocationScale
from .utils import _standard_normal


class Normal(LocationScale, ExponentialFamily):
    """Normal distributions with mean `loc` and standard deviation `scale`, which broadcast.

    `cdf` and `icdf` keep their relative accuracy in the lower tail, where PyTorch's do not.

    >>> from autograd_gpu.distributions import Normal
    >>> Normal(0.0, 1.0).log_prob(ag.tensor([0.0, 1.0]))
    tensor([-0.9189, -1.4189])
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * ((value - self.loc) / self.scale).square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return special.ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.square(), -0.5 / self.scale.square()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.square() / y + 0.5 * ops.log(-math.pi / y)
