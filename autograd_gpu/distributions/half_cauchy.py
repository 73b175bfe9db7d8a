"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .cauchy import Cauchy
from .half import Half


class HalfCauchy(Half):
    """The distributions of |x| for Cauchy x with median 0 and `scale`. The mean is infinite.

    >>> from autograd_gpu.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(ag.tensor(1.0))
    tensor(0.5)
    """

    _of = Cauchy

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.atan(value / self.scale) * (2 / math.pi)
