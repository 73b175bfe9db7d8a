"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import ClassVar

from .. import ops, special
from ..core.tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, log_beta


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distributions on [0, 1], with cdf 1 - (1 - x ** concentration1) ** concentration0.

    >>> from autograd_gpu.distributions import Kumaraswamy
    >>> Kumaraswamy(2.0, 1.0).log_prob(ag.tensor([0.5, 1.0])).exp()
    tensor([1., 2.])
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = ops.zeros_like(self.concentration0)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]  # fmt: skip
        super().__init__(Uniform(zeros, zeros + 1, validate_args=validate_args), transforms, validate_args)

    def _moment(self, n: int) -> Tensor:
        """E[x ** n]"""
        return self.concentration0 * log_beta(1 + n / self.concentration1, self.concentration0).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """((a - 1) / (a b - 1)) ** (1 / a), and NaN where a = concentration1 or b = concentration0 is below 1."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(1 / a)
        return ops.where((a < 1) | (b < 1), math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + ops.xlogy(a - 1, value) + special.xlog1py(b - 1, -value.pow(a))

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ops.digamma(b + 1) + euler_constant
        return 1 - 1 / b + (1 - 1 / a) * harmonic - a.log() - b.log()
