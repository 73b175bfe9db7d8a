"""TransformedDistribution: what a distribution becomes when transforms are applied to its samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..modes import no_grad
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transform import ComposeTransform, Transform
from .utils import _sum_rightmost


class TransformedDistribution(Distribution):
    """The distribution of transforms(x), one after another, for x of a base distribution.

    log p(y) = log p(x) - log |det dy/dx|. Parameters of the transforms broadcast with the base's batch_shape.

    >>> from autograd_gpu.distributions import Normal, TransformedDistribution
    >>> from autograd_gpu.distributions.transforms import ExpTransform
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(ag.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar = {}
    _ag_expands = ("base_dist",)
    _ag_keeps = ("transforms",)

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.transforms = _as_list(transforms)
        base, composed = base_distribution, ComposeTransform(self.transforms)
        event_dim, domain_dim = len(base.event_shape), composed.domain.event_dim
        base_shape = base.batch_shape + base.event_shape
        if len(base_shape) < domain_dim:
            raise ValueError("base_distribution needs to have shape with size at least "
                             f"{domain_dim}, but got {base_shape}.")  # fmt: skip
        shape = composed.forward_shape(base_shape)
        broadcast = composed.inverse_shape(shape)
        if broadcast != base_shape:
            base = base.expand(broadcast[: len(broadcast) - event_dim])
        if domain_dim > event_dim:
            base = Independent(base, domain_dim - event_dim)
        self.base_dist = base
        cut = len(shape) - composed.codomain.event_dim - max(event_dim - domain_dim, 0)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        event_dim, y = len(self.event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            domain_dim = transform.domain.event_dim
            event_dim += domain_dim - transform.codomain.event_dim
            total = total - _sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - domain_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of numbers up to value, by the inverse of the transforms, which have to be monotonic.

        The base checks what they give, so the ends of an open support are allowed, as in PyTorch.
        """
        return self._ag_cdf(value)

    def _ag_cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._in_order(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._in_order(value)))

    def _in_order(self, probability: Tensor) -> Tensor:
        """The probability itself where the transforms increase, and 1 - probability where they decrease."""
        sign = ComposeTransform(self.transforms).sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms
