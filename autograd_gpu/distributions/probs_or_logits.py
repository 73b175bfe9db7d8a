"""What the distributions share that take either probabilities or logits."""

from __future__ import annotations

from typing import Any

from ..core.size import Size
from ..core.tensor import Tensor
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class ProbsOrLogits(Distribution):
    """A distribution with `probs` or `logits`: one is given, the other is computed at its first use.

    With `_is_binary` a logit is that of one probability, log(p / (1 - p)); else logits are logarithms of probabilities
    along the last dimension.
    """

    _is_binary = True
    total_count: Tensor

    def _set_one(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        """Sets the parameter that is given, and the shapes; ValueError unless exactly one is."""
        check_one_given(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        Distribution.__init__(self, self.param_shape, validate_args=validate_args)

    def _set_with_count(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        """The same for distributions of `total_count` trials, with which the parameter broadcasts."""
        check_one_given(probs, logits)
        if probs is not None:
            count, self.probs = broadcast_all(total_count, probs)
        else:
            count, self.logits = broadcast_all(total_count, logits)
        self.total_count = count.type_as(self._param)
        Distribution.__init__(self, self.param_shape, validate_args=validate_args)

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
