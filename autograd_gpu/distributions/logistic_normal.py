"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """The distributions of probabilities of K + 1 classes that StickBreakingTransform makes of K normal numbers.

    `loc` and `scale` are those of the normal distributions, along the last dimension.

    >>> from autograd_gpu.distributions import LogisticNormal
    >>> LogisticNormal(ag.zeros(3), 1.0).sample().sum()
    tensor(1.)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the underlying normal distribution, (..., n - 1)."""
        loc: Tensor = self.base_dist.base_dist.loc
        return loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the underlying normal distribution, (..., n - 1)."""
        scale: Tensor = self.base_dist.base_dist.scale
        return scale
