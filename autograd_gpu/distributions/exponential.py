"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .bases import ExponentialFamily
from .utils import broadcast_all


class Exponential(ExponentialFamily):
    """Exponential distributions of waiting times, with `rate` events per unit of time.

    >>> from autograd_gpu.distributions import Exponential
    >>> Exponential(2.0).cdf(ag.tensor([0.0, 0.5]))
    tensor([0.    , 0.6321])
    """

    arg_constraints: ClassVar = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return -ops.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return -ops.log(-x)
