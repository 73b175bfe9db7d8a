"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .bases import ExponentialFamily
from .utils import in_float64


class Dirichlet(ExponentialFamily):
    """Dirichlet distributions of vectors of positive numbers with the sum 1, along the last dimension.

    ValueError for a `concentration` without dimensions. The gradient of a sample has PyTorch's expectation; PyTorch's
    own varies less, being its mean over all samples of gamma distributions that give the same vector.

    >>> from autograd_gpu.distributions import Dirichlet
    >>> Dirichlet(ag.ones(3)).log_prob(ag.full((3,), 1 / 3)).exp()
    tensor(2.)
    """

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The first corner where all concentrations are below 1; NaN if none is above 1, but some are 1."""
        above = (self.concentration - 1).clamp(min=0)
        at_corners = (self.concentration < 1).all(-1, keepdim=True)
        corner = F.one_hot(ops.zeros_like(above[..., 0], dtype=int), above.shape[-1]).to(above.dtype)
        return ops.where(at_corners, corner, above / above.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return ops._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        return ops.xlogy(a - 1, value).sum(-1) - self._log_normalizer(a)

    def entropy(self) -> Tensor:
        return in_float64(_entropy, self.concentration)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return in_float64(log_beta_of_vectors, x)


def log_beta_of_vectors(a: Tensor) -> Tensor:
    """The logarithm of the beta function of the numbers along the last dimension."""
    return ops.lgamma(a).sum(-1) - ops.lgamma(a.sum(-1))


def _entropy(a: Tensor) -> Tensor:
    total = a.sum(-1)
    means = (a.shape[-1] - total) * ops.digamma(total) + ((a - 1) * ops.digamma(a)).sum(-1)
    return log_beta_of_vectors(a) - means
