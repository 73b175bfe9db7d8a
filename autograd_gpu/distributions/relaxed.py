"""What the relaxed distributions share: a transform of a distribution with a temperature."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """A distribution with the parameters of `base_dist`: `temperature`, and `probs` or `logits`."""

    has_rsample = True
    base_dist: Any

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
