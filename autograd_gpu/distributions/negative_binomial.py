"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .bases import ProbsOrLogits
from .utils import in_float64


class NegativeBinomial(ProbsOrLogits):
    """Negative binomial distributions of the number of successes before `total_count` failures.

    `probs` is the probability of a success, `logits` are log(probs / (1 - probs)); the parameters broadcast, and
    total_count may be any positive number. ValueError unless exactly one of probs and logits is given.

    >>> from autograd_gpu.distributions import NegativeBinomial
    >>> NegativeBinomial(1.0, probs=ag.tensor(0.5)).log_prob(ag.tensor([0.0, 1.0])).exp()
    tensor([0.5 , 0.25])
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Tensor | float, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._set_with_count(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Poisson-distributed numbers of gamma-distributed rates."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.poisson(ops._standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        choices = in_float64(lambda n, k: ops.lgamma(n + k) - ops.lgamma(1 + k) - ops.lgamma(n), n, value)
        return unnormalized + ops.where(n + value == 0, 0.0, choices)
