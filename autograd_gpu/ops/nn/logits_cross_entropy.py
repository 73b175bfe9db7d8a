"""The cross entropy of logits and classes without an array of probabilities, for CUDA and for label smoothing.

Note [Saved logits]
`class_cross_entropy` saves the softmax, since on the CPU another exponential takes longer than
reading memory. On CUDA memory traffic dominates, and memory is scarce: `logits_cross_entropy` reads the logits once,
and saves them and three numbers per row; its gradient recomputes the softmax as exp(x - lse - rest). `lse`, the
logarithm of the sum of exponentials, is a differentiable output, so that derivatives of every order are right. For half
logits it has the wide dtype, since its own rounding would be larger than differences of logits. `rest` is its rounding
error, a constant: log 2 is less than half of the last digit of 1e8.
"""

from __future__ import annotations

from functools import partial

from ...backend import kernels
from ...backend.arrays.dtypes import wide
from ...backend.cpu import cross_entropy as cpu_cross_entropy
from ...core.extend import FLOAT, added, defop, expanded, one_by_one
from ..linalg.matmul import ALWAYS
from .batched_cross_entropy import combined, of_rows
from .class_indices import check_classes, contiguous_as, kernel_classes


def _logits_cross_entropy(
    compute, xp, x, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    check_classes(target, x.shape[-1], ignore_index)
    classes = kernel_classes(x.dtype, target, weight, ignore_index, label_smoothing)
    loss, kept = compute(contiguous_as(x, x.dtype), classes, reduction)
    return (loss, kept.lse), {"rest": kept.rest, "counts": kept.counts, "factor": kept.factor}


def _cast(F, x, dtype):
    return x if x.dtype == dtype else F.cast(x, dtype)


def _probabilities(F, x, lse, rest):
    """The softmax, in the dtype of `lse`."""
    return F.exp(_cast(F, x, lse.dtype) - F.unsqueeze(lse, -1) - F.unsqueeze(rest, -1))


def _loss_back(F, g, x, target, weight, lse, rest, counts, factor, ignore_index, label_smoothing):
    g_loss, g_lse = g
    direct = through = None
    if g_loss is not None:
        direct = F.logits_cross_entropy_grad(
            g_loss, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing
        )
    if g_lse is not None:
        through = _cast(F, _probabilities(F, x, lse, rest) * F.unsqueeze(g_lse, -1), x.dtype)
    return added(direct, through)


def _derivative(F, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing):
    """The derivative of the loss, or of the rows' losses, by x."""
    one = _cast(F, F.constant_like(lse, 1.0), x.dtype)
    return F.logits_cross_entropy_grad(one, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing)


def _loss_jvp(F, t, x, target, weight, lse, rest, counts, factor, ignore_index, reduction, label_smoothing):
    change = t[0] * _derivative(F, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing)
    loss = F.sum(change, -1) if reduction == "none" else F.sum(change)
    return loss, F.sum(_cast(F, t[0], lse.dtype) * _probabilities(F, x, lse, rest), -1)


def _batch_loss(F, n, batched, x, target, weight, *, ignore_index, reduction, label_smoothing):
    def of(x, target, weight, reduction=reduction):
        how = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
        return F.keeping_saved("logits_cross_entropy", (x, target, weight), how)

    if batched[2]:  # the weights are batched
        return one_by_one(F, "logits_cross_entropy", of, n, batched, (x, target, weight))
    x, target = expanded(F, n, batched[:2], (x, target))
    if reduction == "none":
        (losses, lse), extras = of(x, target, weight)
        return (losses, lse), extras | {"factor": F.expand(extras["factor"], (n,))}
    (losses, lse), extras = of(_cast(F, x, wide(x.dtype)), target, weight, "none")
    loss, factor = combined(F, n, target, losses, weight, ignore_index, reduction, x.dtype)
    return (loss, lse), extras | {"factor": factor}


@defop
class logits_cross_entropy:
    """The cross entropy of softmax(x) and classes, and the logarithm of the sum of exp(x); see Note [Saved logits].

    >>> from autograd_gpu.ops.nn.logits_cross_entropy import logits_cross_entropy
    >>> logits_cross_entropy(ag.tensor([[0.0, 0.0]]), ag.tensor([1]))
    logits_cross_entropy_result(loss=tensor(0.6931), lse=tensor([0.6931]))
    """

    forward = partial(_logits_cross_entropy, cpu_cross_entropy.cross_entropy)
    cuda = partial(_logits_cross_entropy, kernels.cross_entropy)
    grad_x = _loss_back
    integral, nondiff, promoted, types = ("target",), ("weight",), ("x",), FLOAT
    outputs, saved = ("loss", "lse"), ("rest", "counts", "factor")
    jvp, batch = _loss_jvp, _batch_loss


# ---- the gradient ------------------------------------------------------------------------------------


def _loss_grad(
    compute, xp, h, x, lse, rest, target, counts, factor, weight=None, *, ignore_index=-100, label_smoothing=0.0
):
    classes = kernel_classes(x.dtype, target, weight, ignore_index, label_smoothing)
    kept = kernels.CrossEntropySaved(*[contiguous_as(stat, wide(x.dtype)) for stat in (lse, rest, counts, factor)])
    return compute(contiguous_as(h, x.dtype), contiguous_as(x, x.dtype), classes, kept)


def _sum_of_rows(F, g, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing):
    return F.sum(g * _derivative(F, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing), -1)


def _second_derivative(F, t, h, x, lse, rest, counts, factor):
    """t times the derivative of the gradient by x, in the dtype of `lse`; the derivative by lse is minus its sum."""
    finite = F.where(counts == 0, 0.0, factor)  # factor is inf if no row counts
    rows = _cast(F, h, lse.dtype) * counts * finite
    return _cast(F, t, lse.dtype) * F.unsqueeze(rows, -1) * _probabilities(F, x, lse, rest)


def _by_logits(F, g, h, x, lse, rest, counts, factor):
    return _cast(F, _second_derivative(F, g, h, x, lse, rest, counts, factor), x.dtype)


def _by_lse(F, g, h, x, lse, rest, counts, factor):
    return -F.sum(_second_derivative(F, g, h, x, lse, rest, counts, factor), -1)


def _grad_jvp(F, t, h, x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing):
    total = None
    if t[0] is not None:
        total = F.logits_cross_entropy_grad(
            t[0], x, lse, rest, target, counts, factor, weight, ignore_index, label_smoothing
        )
    if t[1] is not None:
        total = added(total, _by_logits(F, t[1], h, x, lse, rest, counts, factor))
    if t[2] is not None:
        change = F.expand(F.unsqueeze(-t[2], -1), x.shape)
        total = added(total, _by_logits(F, change, h, x, lse, rest, counts, factor))
    return total


def _batch_grad(F, n, batched, h, x, lse, rest, target, counts, factor, weight, *, ignore_index, label_smoothing):
    def of(*inputs):
        return F.logits_cross_entropy_grad(*inputs, ignore_index, label_smoothing)

    inputs = h, x, lse, rest, target, counts, factor, weight
    if batched[7]:
        return one_by_one(F, "logits_cross_entropy_grad", of, n, batched, inputs)
    x, lse, rest, target, counts = expanded(F, n, batched[1:6], (x, lse, rest, target, counts))
    h, factor = [of_rows(F, n, array, own, target.shape[1:]) for array, own in ((h, batched[0]), (factor, batched[6]))]
    return of(h, x, lse, rest, target, counts, factor, weight)


@defop
class logits_cross_entropy_grad:
    """The gradient of `logits_cross_entropy` for x, given the gradient h of the loss; h and factor per row or 0-d.

    >>> from autograd_gpu.ops.nn.logits_cross_entropy import logits_cross_entropy_grad
    >>> x, lse, one = ag.tensor([[0.0, 0.0]]), ag.tensor([0.6931472]), ag.tensor(1.0)
    >>> logits_cross_entropy_grad(one, x, lse, ag.zeros(1), ag.tensor([1]), ag.tensor([1.0]), one)
    tensor([[ 0.5, -0.5]])
    """

    forward = partial(_loss_grad, cpu_cross_entropy.cross_entropy_backward)
    cuda = partial(_loss_grad, kernels.cross_entropy_backward)
    grad_h, grad_x, grad_lse = _sum_of_rows, _by_logits, _by_lse
    integral, nondiff, broadcasts = ("target",), ("rest", "counts", "factor", "weight"), ALWAYS
    promoted, types = ("h", "x"), FLOAT
    jvp, batch = _grad_jvp, _batch_grad
    wide_rules = True
