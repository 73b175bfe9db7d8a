"""The Fisher-Snedecor distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all, log_beta


class FisherSnedecor(Distribution):
    """F distributions: of the ratio of two chi-squared numbers, divided by their degrees of freedom `df1` and `df2`.

    >>> from autograd_gpu.distributions import FisherSnedecor
    >>> FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _ag_expands = ("_gamma1", "_gamma2")

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(0.5 * self.df1, self.df1, validate_args=validate_args)
        self._gamma2 = Gamma(0.5 * self.df2, self.df2, validate_args=validate_args)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """NaN for df2 <= 2."""
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """NaN for df1 <= 2."""
        return ops.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN for df2 <= 4."""
        ratio = self.df2 / (self.df2 - 2)
        finite = 2 * ratio.square() * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 4))
        return ops.where(self.df2 > 4, finite, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        value = self._gamma1.rsample(sample_shape) / self._gamma2.rsample(sample_shape)
        return value.clamp(min=finfo(value.dtype).tiny)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p() - log_beta(a, b)
