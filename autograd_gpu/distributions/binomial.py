"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .bases import ProbsOrLogits
from .utils import in_float64


class Binomial(ProbsOrLogits):
    """Binomial distributions of the number of successes in `total_count` trials, of probability `probs` each.

    `logits` are log(probs / (1 - probs)); the parameters broadcast. ValueError unless exactly one of the two is given.
    `entropy` and `enumerate_support` need one total_count for all.

    >>> from autograd_gpu.distributions import Binomial
    >>> Binomial(2, probs=ag.tensor(0.5)).log_prob(ag.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.25, 0.5 , 0.25])
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: Tensor | int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._set_with_count(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ops.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        return in_float64(_log_choices, n, value) + value * self.logits + n * F.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        self._common_count("entropy")
        logs = self.log_prob(self.enumerate_support(expand=False))
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(1 + self._common_count("enumerate_support"), dtype=self._param.dtype,
                            device=self._param.device)  # fmt: skip
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _common_count(self, asked: str) -> int:
        """The one total_count; NotImplementedError if they differ."""
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count


def _log_choices(n: Tensor, k: Tensor) -> Tensor:
    return ops.lgamma(n + 1) - ops.lgamma(k + 1) - ops.lgamma(n - k + 1)
