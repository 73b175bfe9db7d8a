"""ExponentialFamily: distributions whose entropy and divergence follow from their log normalizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import grad
from ..config import enable_grad
from ..core.tensor import Tensor
from .distribution import Distribution
from .utils import sum_rightmost


class ExponentialFamily(Distribution):
    """p(x) = exp(<t(x), theta> - F(theta) + k(x)) with natural parameters theta and log normalizer F.

    A subclass defines `_natural_params`, a tuple of tensors, `_log_normalizer(*natural_params)`, and
    `_mean_carrier_measure`, the expectation of k, if it wants the entropy that this class offers.
    """

    _mean_carrier_measure: Any

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _log_normalizer")

    def entropy(self) -> Tensor:
        """The entropy F(theta) - <theta, dF/dtheta> - E[k], by the derivative of the log normalizer."""
        theta, normalizer, gradients = at_natural_parameters(self)
        result = normalizer - self._mean_carrier_measure
        for p, g in zip(theta, gradients, strict=True):
            result = result - sum_rightmost(p * g, len(self._event_shape))
        return result


def at_natural_parameters(p: ExponentialFamily) -> tuple[Sequence[Tensor], Tensor, Sequence[Tensor]]:
    """The natural parameters of p, its log normalizer there, and its derivatives by each of them.

    They are recorded if the parameters are; PyTorch's are not.
    """
    given = p._natural_params
    recorded = any(t.requires_grad for t in given)
    with enable_grad():
        theta = [t if t.requires_grad else t.detach().requires_grad_() for t in given]
        normalizer = p._log_normalizer(*theta)
        gradients = grad(normalizer.sum(), theta, create_graph=recorded)
    return (theta, normalizer, gradients) if recorded else (given, normalizer.detach(), gradients)
