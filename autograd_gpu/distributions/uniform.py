"""The uniform distribution on an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops, random
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class Uniform(Distribution):
    """Uniform distributions on [low, high); the parameters broadcast. ValueError unless low < high.

    >>> from autograd_gpu.distributions import Uniform
    >>> Uniform(0.0, ag.tensor([2.0, 4.0])).log_prob(ag.tensor([1.0, 1.0])).exp()
    tensor([0.5 , 0.25])
    """

    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is the most likely one."""
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.low + random.rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        inside = (self.low <= value) & (value < self.high)
        return ops.log(inside.type_as(self.low)) - ops.log(self.high - self.low)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return ops.log(self.high - self.low)
