"""The categorical distribution of one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .bases import OnCategorical
from .categorical import Categorical


class OneHotCategorical(OnCategorical):
    """Categorical distributions of vectors with a single 1, along the last dimension; see Categorical.

    >>> from autograd_gpu.distributions import OneHotCategorical
    >>> OneHotCategorical(probs=ag.tensor([1.0, 3.0])).log_prob(ag.tensor([0.0, 1.0])).exp()
    tensor(0.75)
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._set_categorical(Categorical(probs, logits), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _one_hot(self, categories: Tensor) -> Tensor:
        return F.one_hot(categories, self.event_shape[0]).to(self._categorical._param.dtype)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        param, n = self._categorical._param, self.event_shape[0]
        values = ops.eye(n, dtype=param.dtype, device=param.device).view(n, *[1] * len(self.batch_shape), n)
        return values.expand(n, *self.batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of `probs` (Bengio, Leonard, Courville 2013).

    >>> from autograd_gpu.distributions import OneHotCategoricalStraightThrough
    >>> probs = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> OneHotCategoricalStraightThrough(probs, validate_args=False).rsample()
    tensor([0., 1.], grad_fn=<AddBackward0>)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
