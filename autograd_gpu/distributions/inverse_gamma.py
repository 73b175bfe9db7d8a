"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform
from .utils import in_float64


class InverseGamma(TransformedDistribution):
    """Inverse gamma distributions: of 1 / x for x of Gamma(concentration, rate).

    >>> from autograd_gpu.distributions import InverseGamma
    >>> InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-ops.ones_like(base.rate)), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape parameter of the Gamma distribution of the reciprocal."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the Gamma distribution of the reciprocal."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """Infinite for concentrations up to 1."""
        mean = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Infinite for concentrations up to 2."""
        a = self.concentration
        return ops.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        of_shape = in_float64(lambda a: a + ops.lgamma(a) - (1 + a) * ops.digamma(a), self.concentration)
        return of_shape + self.rate.log()
