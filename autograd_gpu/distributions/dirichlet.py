"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .exp_family import ExponentialFamily


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

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Dirichlet, batch_shape, _instance)

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

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return ops.xlogy(a - 1, value).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        volume = ops.lgamma(a).sum(-1) - ops.lgamma(total)
        return volume - (a.shape[-1] - total) * ops.digamma(total) - ((a - 1) * ops.digamma(a)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return ops.lgamma(x).sum(-1) - ops.lgamma(x.sum(-1))
