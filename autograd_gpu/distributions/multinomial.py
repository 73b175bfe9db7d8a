"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.size import Size
from ..core.tensor import Tensor
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import as_size, broadcast_all


class Multinomial(Distribution):
    """Multinomial distributions: how often each category is drawn in `total_count` draws, a number.

    `probs` or `logits` are those of Categorical. NotImplementedError unless total_count is a number.

    >>> from autograd_gpu.distributions import Multinomial
    >>> Multinomial(2, probs=ag.tensor([1.0, 1.0])).log_prob(ag.tensor([1.0, 1.0])).exp()
    tensor(0.5)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if isinstance(total_count, Tensor):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new, batch_shape = self._get_checked_instance(Multinomial, _instance), as_size(batch_shape)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        super(Multinomial, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

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

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
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
