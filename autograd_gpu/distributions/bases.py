"""What families of distributions share: the classes between Distribution and the distributions themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import grad
from ..core.size import Size
from ..core.tensor import Tensor
from ..modes import enable_grad
from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import _sum_rightmost, broadcast_all, lazy_property, logits_to_probs, probs_to_logits


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
            result = result - _sum_rightmost(p * g, p.ndim - result.ndim)
        return result


def at_natural_parameters(p: ExponentialFamily) -> tuple[Sequence[Tensor], Tensor, Sequence[Tensor]]:
    """The natural parameters of p, its log normalizer there, and its derivatives by each of them.

    They are recorded if the parameters are; PyTorch's are not.
    """
    params = p._natural_params
    recorded = any(t.requires_grad for t in params)
    with enable_grad():
        theta = [t if t.requires_grad else t.detach().requires_grad_() for t in params]
        normalizer = p._log_normalizer(*theta)
        gradients = grad(normalizer.sum(), theta, create_graph=recorded)
    return (theta, normalizer, gradients) if recorded else (params, normalizer.detach(), gradients)


class Symmetric(Distribution):
    """A distribution whose mean and mode are `loc`."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class LocationScale(Symmetric):
    """A distribution symmetric about `loc`, stretched by `scale`; the two broadcast."""

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)


class ProbsOrLogits(Distribution):
    """A distribution with `probs` or `logits`: one is given, the other is computed at its first use.

    With `_is_binary` a logit is that of one probability, log(p / (1 - p)); else logits are logarithms of probabilities
    along the last dimension.
    """

    _is_binary = True
    total_count: Tensor

    def _set_one(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        """Sets the parameter that is given, and the shapes; ValueError unless exactly one is."""
        check_one_given(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        Distribution.__init__(self, self.param_shape, validate_args=validate_args)

    def _set_with_count(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        """The same for distributions of `total_count` trials, with which the parameter broadcasts."""
        check_one_given(probs, logits)
        if probs is not None:
            count, self.probs = broadcast_all(total_count, probs)
        else:
            count, self.logits = broadcast_all(total_count, logits)
        self.total_count = count.type_as(self._param)
        Distribution.__init__(self, self.param_shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, of the shape of the parameter; from the logits where those were given."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @lazy_property
    def logits(self) -> Tensor:
        """The logits (Bernoulli kinds: log-odds; categorical kinds: normalised log-probabilities)."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @property
    def _param(self) -> Tensor:
        """The one that was given, or both have; for its shape, dtype and device."""
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter: that of probs or logits as given, broadcast."""
        return self._param.shape


def check_one_given(probs: Any, logits: Any) -> None:
    """ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class OnCategorical(Distribution):
    """A distribution of vectors with an element for each category of `_categorical`, which has the parameters."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _ag_expands = ("_categorical",)

    def _set_categorical(self, categorical: ProbsOrLogits, validate_args: bool | None) -> None:
        """Sets the distribution that has the parameters, and the shapes."""
        self._categorical = categorical
        shape = categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities of the categories, (..., categories)."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The normalised log-probabilities of the categories, (..., categories)."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of probs and logits: (..., categories)."""
        return self._categorical.param_shape


class Half(TransformedDistribution):
    """The distributions of |x|, with the `scale` of x, whose distributions are of the class `_of`."""

    _of: type[LocationScale]
    arg_constraints: ClassVar = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: LocationScale

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(self._of(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the distribution of which this is the positive half."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    cdf = Distribution.cdf  # which checks the value; the base does not

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class Relaxed(TransformedDistribution):
    """A distribution with the parameters of `base_dist`: `temperature`, and `probs` or `logits`."""

    has_rsample = True
    base_dist: Any

    @property
    def temperature(self) -> Tensor:
        """The temperature of the relaxation, a scalar tensor; towards 0 samples become one-hot or 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logits of the distribution that is relaxed."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of the distribution that is relaxed."""
        return self.base_dist.probs
