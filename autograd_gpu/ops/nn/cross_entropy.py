"""Losses of class scores and classes. The ops expect the classes in the last dimension; the functions move it there.

Note [Fused cross entropy]
`class_cross_entropy` is one op for log-softmax, selection and mean. It also returns the
softmax, from which its gradient `scale * (softmax - onehot)` is computed. The softmax is a differentiable output, so
that derivatives of every order are right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, wide
from ...backend.cpu.numpy_ops import add_reduce
from ...core.extend import FLOAT, LINEAR, RECORD, Tensor, added, defop, other_words, public
from ...errors import ArgumentError
from ..linalg.matmul import ALWAYS
from ..reduction.dimensions import ufunc_reduce
from ..shape.permute import movedim
from .batched_cross_entropy import batch_cross_entropy, batch_cross_entropy_grad, batch_nll, batch_nll_grad
from .class_indices import check_classes, clipped, contiguous_as, kernel_classes
from .logits_cross_entropy import logits_cross_entropy
from .loss_reduction import check_reduction
from .softmax import exponentials, log_softmax

# ---- classes -----------------------------------------------------------------------------------------


def _row_factors(xp, x, target, weight, ignore_index, reduction):
    """The factors of the rows' losses; which rows are ignored; for a mean, the factor of the rows' weights."""
    classes, dtype = x.shape[-1], wide(x.dtype)
    ignored: Any = None
    factor: Any = None
    if not check_classes(target, classes, ignore_index):
        ignored = target == ignore_index
    if weight is None:
        scale = xp.ones(target.shape, dtype)
    else:
        scale = xp.asarray(weight[clipped(xp, target, classes)]).astype(dtype)
    if ignored is not None:
        scale[ignored] = 0
    if reduction == "mean":
        plain = weight is None and ignored is None
        with np.errstate(invalid="ignore", divide="ignore"):  # the mean of ignored rows is 0 / 0
            factor = xp.asarray(1 / (target.size or 1), dtype) if plain else xp.asarray(1 / scale.sum())
            scale *= factor
    if ignored is not None:  # there may be unknown classes on CUDA, where they are no error
        scale[~ignored & (target != clipped(xp, target, classes))] = math.nan
    return scale, ignored, factor


def _target_index(xp, x, target):
    """The index of each row's target class in x taken as a matrix."""
    flat = clipped(xp, target, x.shape[-1]).reshape(-1)
    return xp.arange(flat.size), flat


def _target_scores(xp, x, target):
    return x.reshape(-1, x.shape[-1])[_target_index(xp, x, target)].reshape(target.shape)


def _reduced_loss(xp, losses, ignored, scale, reduction, dtype):
    """The reduction of the rows' losses."""
    if ignored is not None:
        losses = backend.where(xp, ignored, 0, losses)  # an ignored row may be infinite
    rows = losses * scale
    if reduction != "none":
        empty_mean = not rows.size and reduction == "mean"
        rows = rows.dtype.type(math.nan) if empty_mean else ufunc_reduce(xp, "add", rows, None, False)
    return xp.asarray(rows, dtype)


# ---- cross entropy -----------------------------------------------------------------------------------


def _cross_entropy(xp, x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    alike = weight is None and reduction == "mean" and x.ndim == 2 and x.dtype.itemsize > 2
    if alike and target.size and check_classes(target, x.shape[1], ignore_index):
        return _mean_cross_entropy(x, target)
    dtype, x = x.dtype, x.astype(wide(x.dtype), copy=False)
    scale, ignored, _ = _row_factors(xp, x, target, weight, ignore_index, reduction)
    e, total, highest = exponentials(xp, x, -1)
    losses = (xp.log(total) + highest)[..., 0] - _target_scores(xp, x, target)
    loss = _reduced_loss(xp, losses, ignored, scale, reduction, dtype)
    if ignored is not None and reduction == "mean":
        scale[ignored] = 0  # if all rows are ignored, the mean is NaN and the gradients are 0
    return (loss, xp.divide(e, total, out=e).astype(dtype, copy=False)), {"scale": scale}


def _mean_cross_entropy(x, target):
    """The mean without weights or ignored rows, in half as many passes: those of small batches are mostly overhead."""
    e, total, highest = exponentials(np, x, -1)
    losses = highest[:, 0] - x[np.arange(len(target)), target]
    losses += np.log(total[:, 0])
    scale = np.asarray(1.0 / len(target), x.dtype)
    return (add_reduce(losses) * scale, np.divide(e, total, out=e)), {"scale": scale}


def _cross_entropy_back(F, g, probs, target, scale):
    g_loss, g_probs = g
    direct = None if g_loss is None else F.cross_entropy_grad(g_loss, probs, target, scale)
    if g_probs is None:
        return direct
    through = F.softmax_grad(g_probs, probs, -1)
    return through if direct is None else direct + through


def _derivative(F, probs, target, scale):
    """The derivative of the loss, or of the rows' losses, by x."""
    one = F.constant_like(scale, 1.0)
    return F.cross_entropy_grad(one if one.dtype == probs.dtype else F.cast(one, probs.dtype), probs, target, scale)


def _cross_entropy_jvp(F, t, probs, target, scale, reduction):
    change = t[0] * _derivative(F, probs, target, scale)
    return F.sum(change, -1) if reduction == "none" else F.sum(change), F.softmax_grad(t[0], probs, -1)


@defop
class class_cross_entropy:
    """The cross entropy of softmax(x) and classes, and that softmax; see Note [Fused cross entropy].

    >>> from autograd_gpu.ops.nn.cross_entropy import class_cross_entropy
    >>> class_cross_entropy(ag.tensor([[0.0, 0.0]]), ag.tensor([1]))
    class_cross_entropy_result(loss=tensor(0.6931), probs=tensor([[0.5, 0.5]]))
    """

    no_capture = "host"
    forward = _cross_entropy
    grad_x = _cross_entropy_back
    integral, nondiff, promoted, types = ("target",), ("weight",), ("x",), FLOAT
    outputs, saved = ("loss", "probs"), ("scale",)
    jvp, batch = _cross_entropy_jvp, batch_cross_entropy


def _cross_entropy_grad(xp, h, probs, target, scale):
    rows = xp.asarray(h * scale)
    out = xp.multiply(probs, rows[..., None], out=xp.empty(probs.shape, probs.dtype))  # in C order
    flat = out.reshape(-1, out.shape[-1])
    flat[xp.arange(len(flat)), clipped(xp, target, out.shape[-1]).reshape(-1)] -= rows.reshape(-1)
    return out


def _sum_of_rows(F, g, probs, target, scale):
    return F.sum(g * _derivative(F, probs, target, scale), -1)


def _cross_entropy_grad_jvp(F, t, h, probs, target, scale):
    direct = None if t[0] is None else F.cross_entropy_grad(t[0], probs, target, scale)
    if t[1] is None:
        return direct
    rows = h * scale
    return added(direct, t[1] * F.unsqueeze(rows if rows.dtype == probs.dtype else F.cast(rows, probs.dtype), -1))


@defop
class cross_entropy_grad:
    """h * scale * (probs - onehot(target)) for h and scale per row or 0-d: the gradient of `class_cross_entropy`.

    >>> from autograd_gpu.ops.nn.cross_entropy import cross_entropy_grad
    >>> cross_entropy_grad(ag.tensor(1.0), ag.tensor([[0.5, 0.5]]), ag.tensor([1]), ag.tensor([2.0]))
    tensor([[ 1., -1.]])
    """

    forward = _cross_entropy_grad
    grad_h = _sum_of_rows
    def grad_probs(F, g, h, scale): return g * F.unsqueeze(h * scale, -1)
    integral, nondiff, broadcasts = ("target",), ("scale",), ALWAYS
    promoted, types = ("h", "probs"), FLOAT
    jvp, batch = _cross_entropy_grad_jvp, batch_cross_entropy_grad


# ---- negative log-likelihood -------------------------------------------------------------------------


def _nll_cuda(xp, x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    if not x.shape[-1]:
        return _nll(xp, x, target, weight, ignore_index=ignore_index, reduction=reduction)
    classes = kernel_classes(x.dtype, target, weight, ignore_index)
    loss, factor = kernels.nll(contiguous_as(x, x.dtype), classes, reduction)
    return loss, {"factor": factor if reduction == "mean" else None}


def _nll(xp, x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    scale, ignored, factor = _row_factors(xp, x, target, weight, ignore_index, reduction)
    losses = -_target_scores(xp, x, target).astype(scale.dtype)
    return _reduced_loss(xp, losses, ignored, scale, reduction, x.dtype), {"factor": factor}


def _nll_grad_cuda(xp, h, target, weight=None, factor=None, *, classes, ignore_index, reduction):
    if not classes:
        how = {"classes": classes, "ignore_index": ignore_index, "reduction": reduction}
        return _nll_grad(xp, h, target, weight, factor, **how)
    factor = None if factor is None else contiguous_as(factor, wide(h.dtype))
    targets = kernel_classes(h.dtype, target, weight, ignore_index)
    return kernels.nll_backward(contiguous_as(h, h.dtype), targets, classes, factor)


def _nll_grad(xp, h, target, weight=None, factor=None, *, classes, ignore_index, reduction):
    out = xp.zeros((*target.shape, classes), h.dtype)
    scale, ignored, _ = _row_factors(xp, out, target, weight, ignore_index, "none")
    if factor is not None:
        with np.errstate(invalid="ignore"):  # factor is inf if no row counts
            scale *= factor
    picked = h * -scale
    if ignored is not None:
        picked = backend.where(xp, ignored, 0, picked)
    out.reshape(-1, classes)[_target_index(xp, out, target)] = picked.reshape(-1)
    return out


def _nll_back(F, g, x_shape, target, weight, factor, ignore_index, reduction):
    how = {"classes": x_shape[-1], "ignore_index": ignore_index, "reduction": reduction}
    return F.class_nll_grad(g, target, weight, factor, **how)


def _nll_jvp(F, t, out, target, weight, factor, ignore_index, reduction):
    if reduction != "mean":
        return F.class_nll(t[0], target, weight, ignore_index, reduction)
    # not the op itself, which is NaN if no row counts, where the gradient is 0
    slope = _nll_back(F, F.constant_like(out, 1.0), t[0].shape, target, weight, factor, ignore_index, "mean")
    return F.sum(t[0] * slope)


@defop
class class_nll:
    """Minus the elements of x at the target classes, reduced.

    >>> from autograd_gpu.ops.nn.cross_entropy import class_nll
    >>> class_nll(ag.tensor([[-1.0, -2.0]]), ag.tensor([1]))
    tensor(2.)
    """

    forward, cuda = _nll, _nll_cuda
    grad_x = _nll_back
    integral, nondiff, promoted, types = ("target",), ("weight",), ("x",), FLOAT
    saved = ("factor",)
    jvp, batch = _nll_jvp, batch_nll


@defop
class class_nll_grad:
    """Zeros with the weighted -h at the target classes: the transpose of `class_nll`.

    `factor` is the factor of the weights in class_nll: for "mean" the inverse of their sum, else None.

    >>> from autograd_gpu.ops.nn.cross_entropy import class_nll_grad
    >>> class_nll_grad(ag.tensor(1.0), ag.tensor([1]), None, None, classes=2, ignore_index=-100, reduction="sum")
    tensor([[ 0., -1.]])
    """

    forward, cuda = _nll_grad, _nll_grad_cuda
    def grad_h(F, g, target, weight, ignore_index, reduction):
        return F.class_nll(g, target, weight, ignore_index, reduction)
    integral, nondiff, promoted, types = ("target",), ("weight", "factor"), ("h",), FLOAT
    jvp, batch = LINEAR, batch_nll_grad


# ---- the public functions ----------------------------------------------------------------------------


def _classes_last(x: Tensor, target: Tensor, name: str) -> Tensor:
    """x (N, C, ...) as (N, ..., C), after PyTorch's checks of classes (N, ...)."""
    sizes, places = list(x.shape), list(target.shape)  # elements of a list take half the time of those of a Size
    if not sizes:
        wrong = ArgumentError if name == "nll_loss" else RuntimeError
        raise wrong(f"{name}: expected 1 or more dimensions, (C) or (N, C, ...), got a 0-d tensor")
    if target.dtype in FLOATS:
        also = f", or probabilities of the input's shape {sizes}" if name == "cross_entropy" else ""
        raise RuntimeError(f"{name}: expected classes of dtype int64{also}, but got {target.dtype} of shape {places}")
    batch = sizes[:1] if len(sizes) > 1 else []
    if batch and places and batch != places[:1]:
        raise ArgumentError(f"Expected input batch_size ({batch[0]}) to match target batch_size ({places[0]}).")
    if [*batch, *sizes[2:]] != places:
        raise RuntimeError(f"{name}: expected target of size {[*batch, *sizes[2:]]}, got {places}")
    return movedim(x, 1, -1) if len(sizes) > 2 else x


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but got "
                           f"weight tensor of shape: {list(weight.shape)}")


@public("nll_loss", "nn.functional.nll_loss")
@other_words
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Minus the log-probabilities of the classes: input (N, C, ...) or (C), target (N, ...).

    `weight` (C) are weights of the classes; targets `ignore_index` do not count. `reduction` "mean" (the default)
    divides the sum of the losses by the sum of the weights (NaN if no target counts, with zero gradients), "sum" does
    not divide, "none" returns a loss per target (0 for an ignored one); ValueError for any other. A target out of range
    is an IndexError on the CPU; on CUDA, where targets are not read on the host, its loss and gradient are NaN.
    RuntimeError or ValueError for invalid shapes or dtypes.

    >>> ag.nll_loss(ag.tensor([[-1.0, -2.0]]), ag.tensor([1]))
    tensor(2.)
    """
    check_reduction(reduction)
    last = _classes_last(input, target, "nll_loss")
    _check_weight(weight, last.shape[-1])
    if not last.shape[-1]:
        return _of_no_classes(last, target, ignore_index, reduction)
    return RECORD.class_nll(last, target, weight, ignore_index, reduction)


@public("cross_entropy", "nn.functional.cross_entropy")
@other_words
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross entropy of logits (N, C, ...) or (C), and of classes (N, ...) or probabilities of the logits' shape.

    `weight` (C) are weights of the classes; targets `ignore_index` do not count (RuntimeError with probabilities); the
    target is mixed with the uniform distribution, whose share is `label_smoothing`. `reduction` "mean" (the default)
    divides the sum of the losses by the sum of the weights (NaN if no target counts, with zero gradients), for
    probabilities by the number of samples and positions, "sum" does not divide, "none" returns a loss per target (0 for
    an ignored one); ValueError for any other. A class out of range is an IndexError on the CPU; on CUDA, where classes
    are not read on the host, its loss and gradient are NaN. RuntimeError or ValueError for invalid shapes or dtypes.

    >>> ag.cross_entropy(ag.tensor([[0.0, 0.0]]), ag.tensor([1]))
    tensor(0.6931)
    """
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if (shape := input.shape) == target.shape and shape:
        if ignore_index >= 0 and target.dtype in FLOATS:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _of_probabilities(input, target, weight, reduction, label_smoothing)
    last = _classes_last(input, target, "cross_entropy")
    classes = last.shape[-1]
    _check_weight(weight, classes)
    if not classes:
        loss = _of_no_classes(last, target, ignore_index, reduction)
        return RECORD.mul(loss, math.nan) if label_smoothing else loss  # no classes: there is no uniform distribution
    if label_smoothing == 0.0 and not last.is_cuda:
        return RECORD.class_cross_entropy(last, target, weight, ignore_index, reduction)[0]
    return logits_cross_entropy(last, target, weight, ignore_index, reduction, label_smoothing)[0]


def _of_probabilities(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    if target.dtype not in FLOATS:
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype}")
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    _check_weight(weight, classes)
    if smoothing and classes:
        target = RECORD.add(RECORD.mul(target, 1 - smoothing), smoothing / classes)
    terms = RECORD.mul(log_softmax(input, dim), target)
    if weight is not None:
        terms = RECORD.mul(terms, RECORD.reshape(weight, (classes,) + (1,) * (input.ndim - 1 - dim)))
    rows = RECORD.neg(RECORD.sum(terms, dim))
    if reduction == "none":
        return rows
    return RECORD.sum(rows) if reduction == "sum" else RECORD.mean(rows) if classes else _no_mean(rows)


def _of_no_classes(last: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """The loss of scores (N, ..., 0), where every target has to be ignored."""
    check_classes(target.array, 0, ignore_index)
    rows = RECORD.where(RECORD.eq(target, ignore_index), RECORD.sum(last, -1), math.nan)
    return rows if reduction == "none" else RECORD.sum(rows) if reduction == "sum" else _no_mean(rows)


def _no_mean(rows: Tensor) -> Tensor:
    """The mean if no row counts: NaN."""
    return RECORD.mul(RECORD.sum(rows), math.nan)
