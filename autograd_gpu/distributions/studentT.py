"""Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all, in_float64


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
    _ag_expands = ("_chi2",)

    def __init__(
        self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

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
        normal = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        y, half = (value - self.loc) / self.scale, (self.df + 1) / 2
        return -half * (y.square() / self.df).log1p() - self._log_size()

    def _log_size(self) -> Tensor:
        """-log_prob at loc."""
        ratio = in_float64(lambda df: ops.lgamma(df / 2) - ops.lgamma((df + 1) / 2), self.df)
        return self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + ratio

    def entropy(self) -> Tensor:
        def tail(df: Tensor) -> Tensor:
            return (df + 1) / 2 * (ops.digamma((df + 1) / 2) - ops.digamma(df / 2))

        return self._log_size() + in_float64(tail, self.df)
