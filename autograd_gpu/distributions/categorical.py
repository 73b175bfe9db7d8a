"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..backend.arrays.dtype_limits import finfo
from ..backend.arrays.dtypes import int64
from ..core.tensor import Tensor
from ..modes import no_grad
from . import constraints
from .bases import ProbsOrLogits, check_one_given


class Categorical(ProbsOrLogits):
    """Categorical distributions over 0 ... K - 1, the last dimension of `probs` or `logits`.

    `probs` are nonnegative weights, `logits` logarithms of such; both are normalized. ValueError unless exactly one of
    them is given.

    >>> from autograd_gpu.distributions import Categorical
    >>> Categorical(probs=ag.tensor([1.0, 3.0])).log_prob(ag.tensor([0, 1])).exp()
    tensor([0.25, 0.75])
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _ag_keeps = ("_num_events",)

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        check_one_given(probs, logits)
        if probs is not None:
            self.probs = _vectors("probs", probs) / probs.sum(-1, keepdim=True)
        elif logits is not None:
            self.logits = _vectors("logits", logits) - logits.logsumexp(-1, keepdim=True)
        self._num_events = self.param_shape[-1]
        super().__init__(self.param_shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: the categories have no order."""
        return ops.full(self._extended_shape(), math.nan, dtype=self._param.dtype, device=self._param.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: the categories have no order."""
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        if shape.numel() == 0:
            return ops.empty(shape, dtype=int64, device=self._param.device)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            return ops.multinomial(rows, math.prod(sample_shape), True).mT.reshape(shape)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        value, logits = ops.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # 0 * -inf is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events, dtype=int64, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


def _vectors(name: str, parameter: Tensor) -> Tensor:
    if parameter.dim() < 1:
        raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
    return parameter
