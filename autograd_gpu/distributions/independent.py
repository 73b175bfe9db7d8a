"""Independent: batch dimensions taken as dimensions of an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch dimensions become event dimensions.

    ValueError if it has fewer batch dimensions.

    >>> from autograd_gpu.distributions import Independent, Normal
    >>> d = Independent(Normal(ag.zeros(2, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(ag.zeros(2, 3)).shape
    ((2,), (3,), (2,))
    """

    arg_constraints: ClassVar = {}
    _ag_expands = ("base_dist",)
    _ag_keeps = ("reinterpreted_batch_ndims",)

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, n = base_distribution.batch_shape, reinterpreted_batch_ndims
        if n > len(batch):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                             f"actual {n} vs {len(batch)}")  # fmt: skip
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = n
        cut = len(batch) - n
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
