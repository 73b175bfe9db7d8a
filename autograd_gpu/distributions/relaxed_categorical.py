"""Relaxed categorical distributions: continuous ones, with a gradient, that become one-hot as the temperature falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import random
from ..core.tensor import Tensor
from . import constraints
from .bases import OnCategorical, Relaxed
from .categorical import Categorical
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs


class ExpRelaxedCategorical(OnCategorical):
    """The logarithms of RelaxedOneHotCategorical.

    >>> from autograd_gpu.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(ag.tensor(1.0), probs=ag.ones(3)).rsample().exp().sum()
    tensor(1.)
    """

    support = constraints.real_vector  # those with logsumexp 0, but PyTorch, too, lets rounding pass
    has_rsample = True
    _ag_keeps = ("temperature",)

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        self._set_categorical(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(random.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits.expand(shape) - (-uniform.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        scores = logits - value * self.temperature
        scores = (scores - scores.logsumexp(-1, keepdim=True)).sum(-1)
        others = self.event_shape[0] - 1
        return scores + math.lgamma(others + 1) + others * self.temperature.log()


class RelaxedOneHotCategorical(Relaxed):
    """Relaxed one-hot categorical distributions of vectors with the sum 1, by `temperature` and `probs` or `logits`.

    They are those of Maddison, Mnih, Teh 2017 and Jang, Gu, Poole 2017. ValueError unless exactly one of probs and
    logits is given.

    >>> from autograd_gpu.distributions import RelaxedOneHotCategorical
    >>> RelaxedOneHotCategorical(ag.tensor(1.0), probs=ag.ones(2)).log_prob(ag.tensor([0.25, 0.75])).exp()
    tensor(1.)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
