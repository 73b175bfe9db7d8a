"""Negative log-likelihoods, up to constants: binary cross entropy, Gaussian, Poisson, Kullback-Leibler divergence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import get_default_dtype, wide
from ...backend.formulas import expression as formulas
from ...core.extend import FLOAT, RECORD, Tensor, check_values, defop, example, other_words, public
from ...errors import ArgumentError
from ..linalg.matmul import ALWAYS
from ..reduction.dimensions import divided_by_count
from .elementwise_loss import elementwise_loss
from .loss_reduction import LOSS_JVP, expanded_inputs, finish, reduced_samples, share
from .similarity import lift

# ---- binary classification ---------------------------------------------------------------------------


def _check_logits(input, target, weight, pos_weight):
    if input.shape != target.shape:
        raise ArgumentError(f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})")


# t * softplus(-x) + (1 - t) * softplus(x), in terms of one sign, so that small losses are accurate. The derivative by
# t, the difference of the two, is -x.
@formulas.with_derivative(lambda x, t: (1 - t) * formulas.sigmoid(x) - t * formulas.sigmoid(-x), lambda x, t: -x)
def _cross_entropy(x, t):
    rest = formulas.log1p(formulas.exp(formulas.minimum(x, -x)))
    return t * formulas.maximum(-x, 0) + (1 - t) * formulas.maximum(x, 0) + rest


def _cross_entropy_of_logits(input, target, weight=None, pos_weight=None):
    if pos_weight is None:
        loss = _cross_entropy(input, target)
    else:
        loss = target * pos_weight * formulas.softplus(-input) + (1 - target) * formulas.softplus(input)
    return loss if weight is None else loss * weight


@elementwise_loss
class binary_cross_entropy_with_logits:
    """Cross entropy of sigmoid(input) and a target in [0, 1] of the same shape; accurate for large logits.

    `weight` scales the losses of the elements and `pos_weight` the term of the positive class; both broadcast.
    `reduction` is "mean" (the default; the divisor is the number of elements), "sum" or "none"; ValueError for any
    other, and for a target of another shape.

    >>> ag.binary_cross_entropy_with_logits(ag.tensor([0.0]), ag.tensor([1.0]))
    tensor(0.6931)
    """

    formula, check = _cross_entropy_of_logits, _check_logits
    nondiff = ("weight", "pos_weight")
    wide_rules = True
    public = "binary_cross_entropy_with_logits", "nn.functional.binary_cross_entropy_with_logits"


def _check_probabilities(input, target, weight):
    if input.shape != target.shape:
        raise ArgumentError(f"Using a target size ({list(target.shape)}) that is different to the input size "
                            f"({list(input.shape)}) is deprecated. Please ensure they have the same size.")
    if backend.seen_outside(input, 0, 1):
        raise RuntimeError("all elements of input should be between 0 and 1; put a sigmoid before, or better, use "
                           "binary_cross_entropy_with_logits")


@formulas.with_derivative(
    lambda p, t: (p - t) / formulas.maximum((1 - p) * p, 1e-12), lambda p, t: formulas.log1p(-p) - formulas.log(p)
)
def _cross_entropy_of_probabilities(p, t):
    yes, no = formulas.maximum(formulas.log(p), -100), formulas.maximum(formulas.log1p(-p), -100)
    return (t - 1) * no - t * yes


@elementwise_loss
class binary_cross_entropy:
    """-target * log(input) - (1 - target) * log(1 - input), input and target in [0, 1] and of one shape.

    The logarithms are clamped to -100 or more. `weight` scales the losses of the elements and broadcasts. `reduction`
    is "mean" (the default; the divisor is the number of elements), "sum" or "none"; ValueError for any other, and for a
    target of another shape. RuntimeError for an input on the CPU outside of [0, 1].

    >>> ag.binary_cross_entropy(ag.tensor([0.5]), ag.tensor([1.0]))
    tensor(0.6931)
    """

    def formula(input, target, weight=None):
        loss = _cross_entropy_of_probabilities(input, target)
        return loss if weight is None else loss * weight
    check = _check_probabilities
    nondiff = ("weight",)
    public = "binary_cross_entropy", "nn.functional.binary_cross_entropy"
    no_lossy_save = True


# ---- Kullback-Leibler divergence ---------------------------------------------------------------------


def _kl_div(xp, input, target, *, reduction="mean", log_target=False):
    x, t = (y.astype(wide(input.dtype), copy=False) for y in (input, target))
    logarithm = t if log_target else xp.log(backend.where(xp, t == 0, t.dtype.type(1), t))  # 0 * log(0) is 0
    values = (xp.exp(t) if log_target else t) * (logarithm - x)
    if reduction != "batchmean":
        return finish(xp, values, reduction, input.dtype)
    total = finish(xp, values, "sum", values.dtype)
    return divided_by_count(total, input.shape[0] if input.ndim else 1).astype(input.dtype, copy=False)


def _kl_share(g, shape, input_shape, reduction):
    if reduction == "batchmean":
        return g / ((input_shape[0] if input_shape else 1) or 1)
    return share(g, shape, reduction)


def _kl_input(F, g, target, input_shape, target_shape, reduction, log_target):
    shape = np.broadcast_shapes(input_shape, target_shape)
    derivative = -(F.exp(target) if log_target else target)
    return F.expand(derivative, shape) * _kl_share(g, shape, input_shape, reduction)


def _kl_target(F, g, input, target, reduction, log_target):
    derivative = F.exp(target) * (target - input + 1) if log_target else F.log(target) + 1 - input
    return derivative * _kl_share(g, derivative.shape, input.shape, reduction)


def _kl_batch(F, n, batched, input, target, *, reduction, log_target):
    values = F.kl_div(*expanded_inputs(F, n, batched, (input, target)), "none", log_target)
    if reduction != "batchmean":
        return reduced_samples(F, values, reduction)
    total, shape = reduced_samples(F, values, "sum"), example(input, batched[0]).shape
    size = shape[0] if shape else 1
    return total / size if size else total * math.nan


@defop
class kl_div:
    """target * (log(target) - input) for log-probabilities `input` and probabilities `target`, broadcasting.

    With `log_target` target is logarithmic, too. `reduction` "batchmean" divides the sum by the size of dimension 0,
    which gives the Kullback-Leibler divergence; "mean" (the default) divides by the number of elements, "sum" does not
    divide, "none" returns a loss per element; ValueError for any other. The loss of a target of 0 is 0.

    >>> ag.kl_div(ag.tensor([[0.5, 0.5]]).log(), ag.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """

    forward = _kl_div
    grad_input = _kl_input
    grad_target = _kl_target
    types, broadcasts = FLOAT, ALWAYS
    jvp, batch = LOSS_JVP, _kl_batch
    wide_rules = True
    takes_out = False
    public = "kl_div", "nn.functional.kl_div"
    no_lossy_save = True
    keeps_layout = True


# ---- Gaussian and Poisson ----------------------------------------------------------------------------


@formulas.with_derivative(lambda d, var: d / var, lambda d, var: (1 / var - (d / var) * (d / var)) * 0.5)
def _gaussian(d, var):
    return (formulas.log(var) + d * d / var) * 0.5


@elementwise_loss
class gaussian_nll:
    """(log(var) + (input - target) ** 2 / var) / 2 for a positive `var`, broadcasting: the op of `gaussian_nll_loss`.

    >>> from autograd_gpu.ops.nn.likelihood_losses import gaussian_nll
    >>> gaussian_nll(ag.tensor([1.0]), ag.tensor([3.0]), ag.tensor([1.0]))
    tensor(2.)
    """

    def formula(input, target, var, *, full=0):
        loss = _gaussian(input - target, var)
        return formulas.select(formulas.equal(full, 0), loss, loss + 0.5 * math.log(2 * math.pi))
    broadcasts = ALWAYS
    wide_rules = True
    no_lossy_save = True


def _refuse_negative(var: Any) -> None:
    if backend.seen_any(var < 0):
        raise ArgumentError("var has negative entry/entries")


@public("gaussian_nll_loss", "nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target) ** 2 / var) / 2, with `full` plus log(2 pi) / 2; var is clamped to `eps` or more.

    `var` is a number or has the shape of the input, whose last dimension may be 1 or missing; its gradient is computed
    at max(var, eps). `reduction` is "mean" (the default), "sum" or "none". ValueError for any other, for another shape
    of var, and on the CPU for a negative var.

    >>> ag.gaussian_nll_loss(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 2.0]), ag.tensor([1.0, 1.0]))
    tensor(1.)
    """
    if isinstance(var, Tensor):
        check_values(var, _refuse_negative)
        spread = var
    else:
        if var < 0:
            raise ArgumentError("var has negative entry/entries")
        spread = RECORD.constant_like(input, float(var))
    shape = spread.shape
    if shape != input.shape:
        if shape == input.shape[:-1]:
            spread = RECORD.unsqueeze(spread, -1)
        elif len(shape) != input.ndim or sum(m for n, m in zip(input.shape, shape, strict=True) if n != m) != 1:
            raise ArgumentError(f"var is of incorrect size: {list(shape)} for an input of {list(input.shape)}")
    return gaussian_nll(input, target, lift(spread, eps), reduction, full)


def _stirling(t):
    return formulas.select(t > 1, t * formulas.log(t) - t + formulas.log(t * (2 * math.pi)) * 0.5, 0)


@elementwise_loss
class poisson_nll:
    """The op of `poisson_nll_loss`.

    >>> from autograd_gpu.ops.nn.likelihood_losses import poisson_nll
    >>> poisson_nll(ag.tensor([0.0]), ag.tensor([1.0]))
    tensor(1.)
    """

    def formula(input, target, *, log_input=1, full=0, eps=1e-8):
        of_log, of_rate = formulas.exp(input) - target * input, input - target * formulas.log(input + eps)
        loss = formulas.select(formulas.equal(log_input, 0), of_rate, of_log)
        return formulas.select(formulas.equal(full, 0), loss, loss + _stirling(target))
    broadcasts = ALWAYS
    wide_rules = True
    no_lossy_save = True


@public("poisson_nll_loss", "nn.functional.poisson_nll_loss")
@other_words
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target * input; without `log_input` input - target * log(input + eps).

    `full` adds Stirling's approximation of log(target!) for targets above 1. `reduction` is "mean" (the default), "sum"
    or "none"; ValueError for any other.

    >>> ag.poisson_nll_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 2.0]))
    tensor(1.)
    """
    rates = input if input.is_floating_point() else input.to(get_default_dtype())
    return poisson_nll(rates, target, reduction, log_input, full, eps)
