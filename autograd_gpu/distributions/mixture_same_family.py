"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """Mixtures of the distributions along the last batch dimension of one distribution, with a Categorical's weights.

    ValueError unless their batch shapes fit.

    >>> from autograd_gpu.distributions import Categorical, MixtureSameFamily, Normal
    >>> mixture = MixtureSameFamily(Categorical(ag.tensor([0.5, 0.5])), Normal(ag.tensor([-1.0, 3.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(1.), tensor(5.))
    """

    arg_constraints: ClassVar = {}
    _ag_expands = ("_mixture_distribution", "_component_distribution")
    _ag_keeps = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        _check_parts(mixture_distribution, component_distribution)
        self._num_component = component_distribution.batch_shape[-1]
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_distribution.batch_shape[:-1], event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The Categorical that picks a component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components: a distribution whose last batch dimension is that of the mixture."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The weights, with dimensions of size 1 for those of an event."""
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    def _mixed(self, values: Tensor) -> Tensor:
        """The weighted sum over the components."""
        return (self._weights() * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, and the variance of the means."""
        distance = self.component_distribution.mean - self.mean.unsqueeze(-1 - self._event_ndims)
        return self._mixed(self.component_distribution.variance) + self._mixed(distance.square())

    def cdf(self, x: Tensor) -> Tensor:
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def _ag_log_prob(self, x: Tensor) -> Tensor:
        logs = self.component_distribution.log_prob(self._pad(x))
        return (logs + F.log_softmax(self.mixture_distribution.logits, -1)).logsumexp(-1)

    def _pad(self, x: Tensor) -> Tensor:
        """x with a dimension of size 1 for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            index = chosen.reshape(*chosen.shape, *[1] * (self._event_ndims + 1))
            shape = (*values.shape[:dim], 1, *self.event_shape)
            return values.gather(dim, index.expand(shape)).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


def _check_parts(mixture: Any, component: Any) -> None:
    """ValueError unless these make a mixture."""
    if not isinstance(mixture, Categorical):
        raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
    if not isinstance(component, Distribution):
        raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
    own, others = mixture.batch_shape, component.batch_shape[:-1]
    if any(a != 1 and b != 1 and a != b for a, b in zip(reversed(own), reversed(others), strict=False)):
        raise ValueError(f"`mixture_distribution.batch_shape` ({own}) is not compatible with "
                         f"`component_distribution.batch_shape`({others})")  # fmt: skip
    weights, count = mixture.logits.shape[-1], component.batch_shape[-1]
    if weights != count:
        raise ValueError(f"`mixture_distribution component` ({weights}) does not equal "
                         f"`component_distribution.batch_shape[-1]` ({count})")  # fmt: skip
