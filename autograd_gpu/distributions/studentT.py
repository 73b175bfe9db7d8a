"""Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops, random
from ..core.tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import broadcast_all


class StudentT(Distribution):
    """Student's t distributions with `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    >>> from autograd_gpu.distributions import StudentT
    >>> StudentT(1.0).log_prob(ag.tensor(0.0)).exp() * np.pi
    tensor(1.)
    """

    arg_constraints: ClassVar = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expanded(StudentT, batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        """NaN for df <= 1."""
        return ops.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite for 1 < df <= 2, NaN for df <= 1."""
        finite = self.scale.square() * self.df / (self.df - 2)
        return ops.where(self.df > 2, finite, ops.where(self.df > 1, math.inf, ops.full_like(self.df, math.nan)))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        normal = random.randn(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, (self.df + 1) / 2
        return -half * (y.square() / self.df).log1p() - self._log_size()

    def _log_size(self) -> Tensor:
        """-log_prob at loc."""
        ratio = ops.lgamma(self.df / 2) - ops.lgamma((self.df + 1) / 2)
        return self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + ratio

    def entropy(self) -> Tensor:
        half = (self.df + 1) / 2
        return self._log_size() + half * (ops.digamma(half) - ops.digamma(self.df / 2))
