"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..modes import no_grad
from . import constraints
from .bases import ExponentialFamily
from .utils import broadcast_all


class Poisson(ExponentialFamily):
    """Poisson distributions of the number of events, of which `rate` are expected.

    >>> from autograd_gpu.distributions import Poisson
    >>> Poisson(ag.tensor([0.0, 1.0])).log_prob(ag.tensor([0.0, 1.0]))
    tensor([ 0., -1.])
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - ops.lgamma(value + 1)

    def entropy(self) -> Tensor:
        raise NotImplementedError("Poisson does not implement entropy: it has no closed form")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.exp()
