"""What the distributions share that take either probabilities or logits."""

from __future__ import annotations

from typing import Any

from ..core.size import Size
from ..core.tensor import Tensor
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits


class ProbsOrLogits(Distribution):
    """A distribution with `probs` or `logits`: one is given, the other is computed at its first use.

    With `_is_binary` a logit is that of one probability, log(p / (1 - p)); else logits are logarithms of probabilities
    along the last dimension.
    """

    _is_binary = True

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @property
    def _param(self) -> Tensor:
        """The one that was given, or both have; for its shape, dtype and device."""
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        return self._param.shape


def check_one_given(probs: Any, logits: Any) -> None:
    """ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
