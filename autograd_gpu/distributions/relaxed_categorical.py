"""Relaxed categorical distributions: continuous ones, with a gradient, that become one-hot as the temperature falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import random
from ..core.size import Size
from ..core.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import as_size, broadcast_all, clamp_probs


class ExpRelaxedCategorical(Distribution):
    """The logarithms of RelaxedOneHotCategorical.

    >>> from autograd_gpu.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(ag.tensor(1.0), probs=ag.ones(3)).rsample().exp().sum()
    tensor(1.)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # those with logsumexp 0, but PyTorch, too, lets rounding pass
    has_rsample = True

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new, batch_shape = self._get_checked_instance(ExpRelaxedCategorical, _instance), as_size(batch_shape)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        super(ExpRelaxedCategorical, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(random.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits.expand(shape) - (-uniform.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        scores = logits - value * self.temperature
        scores = (scores - scores.logsumexp(-1, keepdim=True)).sum(-1)
        others = self.event_shape[0] - 1
        return scores + math.lgamma(others + 1) + others * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Relaxed one-hot categorical distributions of vectors with the sum 1, by `temperature` and `probs` or `logits`.

    They are those of Maddison, Mnih, Teh 2017 and Jang, Gu, Poole 2017. ValueError unless exactly one of probs and
    logits is given.

    >>> from autograd_gpu.distributions import RelaxedOneHotCategorical
    >>> RelaxedOneHotCategorical(ag.tensor(1.0), probs=ag.ones(2)).log_prob(ag.tensor([0.25, 0.75])).exp()
    tensor(1.)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
