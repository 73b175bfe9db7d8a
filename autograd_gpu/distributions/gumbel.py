"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import ClassVar

from .. import ops
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


class Gumbel(TransformedDistribution):
    """Gumbel distributions of the maximum of many numbers, with mode `loc` and `scale`.

    >>> from autograd_gpu.distributions import Gumbel
    >>> Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        zero, one = ops.full_like(self.loc, limits.tiny), ops.full_like(self.loc, 1 - limits.eps)
        transforms = [  # loc - scale * log(-log(u))
            ExpTransform().inv, AffineTransform(loc=0, scale=-ops.ones_like(self.scale)), ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]  # fmt: skip
        base: Distribution = Uniform(zero, one, validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    cdf = Distribution.cdf

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
