"""The Weibull distribution."""

from __future__ import annotations

from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """Weibull distributions of times of failure, with `scale` and the shape `concentration`.

    >>> from autograd_gpu.distributions import Exponential, Weibull
    >>> Weibull(2.0, 1.0).log_prob(ag.tensor(3.0)) == Exponential(0.5).log_prob(ag.tensor(3.0))
    tensor(True)
    """

    arg_constraints: ClassVar = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """One divided by the concentration."""
        return self.concentration.reciprocal()

    @property
    def mean(self) -> Tensor:
        return self.scale * ops.lgamma(1 + self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        """scale * ((k - 1) / k)**(1 / k), and NaN where the concentration k is below 1."""
        ratio = (self.concentration - 1) / self.concentration
        return self.scale * ratio**self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        first, second = (ops.lgamma(1 + n * self.concentration_reciprocal) for n in (1, 2))
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        shape = self.concentration_reciprocal
        return euler_constant * (1 - shape) + ops.log(self.scale * shape) + 1
