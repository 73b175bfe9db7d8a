"""Kullback-Leibler divergence: the table of formulas by classes, and the look-up in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from .bases import ExponentialFamily, at_natural_parameters
from .distribution import Distribution
from .utils import _sum_rightmost

Formula = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Formula] = {}  # by the classes of the arguments, until something is registered


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Decorates the function of (p, q) that computes KL(p || q) for instances of two classes and of their subclasses.

    Each may also be a base of distributions, up to `object`; TypeError unless both are classes. Of several formulas
    that fit, `kl_divergence` takes that for the most specific classes, and warns if the first argument and the second
    would choose differently.

    >>> from autograd_gpu.distributions import Normal, kl_divergence, register_kl
    >>> class Halved(Normal):
    ...     pass
    >>> @register_kl(Halved, Halved)
    ... def _kl(p, q):
    ...     return ag.zeros(())
    >>> kl_divergence(Halved(0.0, 1.0), Halved(1.0, 1.0)), kl_divergence(Halved(0.0, 1.0), Normal(1.0, 1.0))
    (tensor(0.), tensor(0.5))
    """
    for side, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):
            raise TypeError(f"Expected {side} to be a Distribution subclass but got {cls}")

    def register(formula: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = formula
        _KL_MEMOIZE.clear()
        return formula

    return register


def _most_specific(type_p: type, type_q: type) -> Formula:
    """The formula for these classes; NotImplementedError if there is none."""
    p_order, q_order = type_p.__mro__, type_q.__mro__
    fitting = [(p_order.index(p), q_order.index(q), p, q) for p, q in _KL_REGISTRY if p in p_order and q in q_order]
    if not fitting:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type_p.__name__} and q type "
                                  f"{type_q.__name__}")  # fmt: skip
    *_, left_p, left_q = min(fitting, key=lambda row: row[:2])
    *_, right_p, right_q = min(fitting, key=lambda row: row[1::-1])
    if (left_p, left_q) != (right_p, right_q):
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left_p.__name__}, "
            f"{right_q.__name__})", RuntimeWarning, stacklevel=3,
        )  # fmt: skip
    return _KL_REGISTRY[left_p, left_q]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the expectation of log p(x) - log q(x) over p; of the shape batch_shape.

    NotImplementedError for classes without a formula, see `register_kl`.

    >>> from autograd_gpu.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5)
    """
    key = type(p), type(q)
    formula = _KL_MEMOIZE.get(key)
    if formula is None:
        formula = _KL_MEMOIZE[key] = _most_specific(*key)
    return formula(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _same_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer; Nielsen and Nock, https://arxiv.org/abs/0911.4863."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed "
                                  f"using Bregman divergences: {type(p).__name__} and {type(q).__name__}")  # fmt: skip
    theta, normalizer, gradients = at_natural_parameters(p)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for t_p, t_q, g in zip(theta, q._natural_params, gradients, strict=True):
        term = (t_q - t_p) * g
        result = result - _sum_rightmost(term, term.ndim - result.ndim)
    return result
