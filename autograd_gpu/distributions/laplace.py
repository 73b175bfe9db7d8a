"""The Laplace distribution."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops, random
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from .bases import LocationScale


class Laplace(LocationScale):
    """Laplace distributions with mean `loc` and `scale`, the mean distance from it.

    >>> from autograd_gpu.distributions import Laplace
    >>> Laplace(0.0, 0.5).log_prob(ag.tensor([0.5, 1.0]))
    tensor([-1., -2.])
    """

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        u = random.uniform(shape, dtype, self.loc.device, finfo(dtype).eps - 1, 1.0)  # in (-1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs().clamp(min=finfo(dtype).tiny))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return -ops.log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def _ag_cdf(self, value: Tensor) -> Tensor:
        difference = value - self.loc
        return 0.5 - 0.5 * difference.sign() * ops.expm1(-difference.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + ops.log(2 * self.scale)
