"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops, special
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from . import constraints
from .bases import ExponentialFamily
from .utils import broadcast_all, in_float64


class Gamma(ExponentialFamily):
    """Gamma distributions of shape `concentration` and inverse scale `rate`, which broadcast.

    >>> from autograd_gpu.distributions import Gamma
    >>> Gamma(1.0, 2.0).log_prob(ag.tensor([0.0, 1.0]))
    tensor([ 0.6931, -1.3069])
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=finfo(value.dtype).tiny)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - ops.lgamma(a)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        of_shape = in_float64(lambda a: a + ops.lgamma(a) + (1 - a) * ops.digamma(a), self.concentration)
        return of_shape - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x + 1) - (x + 1) * ops.log(-y)
