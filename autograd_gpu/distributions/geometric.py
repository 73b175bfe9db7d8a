"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops, random
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .bases import ProbsOrLogits
from .utils import broadcast_all, holds_everywhere


class Geometric(ProbsOrLogits):
    """Geometric distributions of the number of failures before the first success, which has probability `probs`.

    `logits` are log(probs / (1 - probs)). ValueError unless exactly one of the two is given.

    >>> from autograd_gpu.distributions import Geometric
    >>> Geometric(probs=0.5).log_prob(ag.tensor([0.0, 1.0])).exp()
    tensor([0.5 , 0.25])
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._set_one(probs, logits, validate_args)
        if self._validate_args and probs is not None and not holds_everywhere(self.probs > 0):
            raise ValueError(f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution "
                             f"{self!r} to be positive but found invalid values:\n{self.probs[~(self.probs > 0)]}")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, probs = self._extended_shape(sample_shape), self.probs
        with no_grad():
            uniform = random.rand(shape, dtype=probs.dtype, device=probs.device).clamp(min=finfo(probs.dtype).tiny)
            return (uniform.log() / (-probs).log1p()).floor()

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(value, self.probs)
        failing = ops.where((probs == 1) & (value == 0), 0.0, probs)  # 0 * log(0) is 0
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
