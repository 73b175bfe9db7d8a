"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .bases import OnCategorical
from .binomial import Binomial
from .categorical import Categorical
from .utils import broadcast_all


class Multinomial(OnCategorical):
    """Multinomial distributions: how often each category is drawn in `total_count` draws, a number.

    `probs` or `logits` are those of Categorical. NotImplementedError unless total_count is a number.

    >>> from autograd_gpu.distributions import Multinomial
    >>> Multinomial(2, probs=ag.tensor([1.0, 1.0])).log_prob(ag.tensor([1.0, 1.0])).exp()
    tensor(0.5)
    """

    _ag_keeps = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if isinstance(total_count, Tensor):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._set_categorical(Categorical(probs, logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, param = self._extended_shape(sample_shape), self._categorical._param
        drawn = self._categorical.sample((*sample_shape, self.total_count)).movedim(len(sample_shape), -1)
        counts = ops.zeros(shape, dtype=param.dtype, device=param.device)
        return counts.scatter_add(-1, drawn, ops.ones_like(drawn, dtype=param.dtype))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        choices = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        logits = ops.where((value == 0) & (logits == -math.inf), 0.0, logits)  # 0 * -inf is 0
        return choices + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """n * H(category) - log n! + the sum of E[log x_i!] over the categories, where x_i is binomial."""
        one = Binomial(self.total_count, probs=self.probs)
        counts = one.enumerate_support(expand=False)[1:]
        logs = (one.log_prob(counts).exp() * ops.lgamma(counts + 1)).sum((0, -1))
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + logs
