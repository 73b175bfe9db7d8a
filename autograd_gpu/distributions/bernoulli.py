"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .bases import ExponentialFamily, ProbsOrLogits
from .utils import broadcast_all


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """Bernoulli distributions: 1 with probability `probs`, else 0; `logits` are log(probs / (1 - probs)).

    ValueError unless exactly one of the two is given.

    >>> from autograd_gpu.distributions import Bernoulli
    >>> Bernoulli(probs=ag.tensor([0.5, 0.25])).log_prob(ag.tensor([1.0, 0.0])).exp()
    tensor([0.5 , 0.75])
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._set_one(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """NaN where both values are equally likely."""
        return ops.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return -F.logsigmoid(-x)
