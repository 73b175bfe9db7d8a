"""Relaxed Bernoulli distributions: continuous ones, with a gradient, that become Bernoulli as the temperature falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import random
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .bases import ProbsOrLogits, Relaxed
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The logits of RelaxedBernoulli: a logistic distribution around logits / temperature.

    >>> from autograd_gpu.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(ag.tensor(1.0), probs=0.5).log_prob(ag.tensor(0.0)).exp()
    tensor(0.25)
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _ag_keeps = ("temperature",)

    def __init__(
        self, temperature: Tensor, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        self._set_one(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(random.rand(shape, dtype=probs.dtype, device=probs.device))
        noise = uniform.log() - (-uniform).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        distance = logits - value * self.temperature
        return self.temperature.log() + distance + 2 * F.logsigmoid(-distance)


class RelaxedBernoulli(Relaxed):
    """Relaxed Bernoulli distributions on (0, 1), by `temperature` and `probs` or `logits`.

    They are those of Maddison, Mnih, Teh 2017 and Jang, Gu, Poole 2017. ValueError unless exactly one of probs and
    logits is given.

    >>> from autograd_gpu.distributions import RelaxedBernoulli
    >>> RelaxedBernoulli(ag.tensor(1.0), probs=0.5).log_prob(ag.tensor([0.2, 0.5])).exp()
    tensor([1., 1.])
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self, temperature: Tensor, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
