"""Losses with a margin, beyond which the loss is zero.

The losses of classes and labels are ops, the others are functions made of ops.
`reduction` is "mean" (the default), "sum" or "none"; ValueError for any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...backend import constant
from ...backend.arrays.dtypes import float64, int64
from ...backend.arrays.flat_index import add_at
from ...backend.formulas import expression as formulas
from ...core.extend import FLOAT, RECORD, Tensor, check_values, defop, expanded, other_words, public
from ...errors import ArgumentError
from .._support.half_precision import in_float32
from ..linalg.matmul import ALWAYS
from ..reduction.dimensions import divided_by_count, float_sum
from .elementwise_loss import elementwise_loss
from .exponential_activations import logsigmoid
from .loss_reduction import check_reduction, settle
from .similarity import pairwise_distance

FEW = 64  # up to N * C * C = FEW, Python lists are faster than arrays
EPS = 1e-12  # added to squared norms, as in PyTorch


def _shapes(**tensors: Tensor) -> str:
    return ", ".join(f"{name}: {list(t.shape)}" for name, t in tensors.items())


# ---- two inputs --------------------------------------------------------------------------------------


@public("margin_ranking_loss", "nn.functional.margin_ranking_loss")
@other_words
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target * (input1 - input2)); target is 1 if input1 should rank higher, -1 if input2 should.

    >>> ag.margin_ranking_loss(ag.tensor([1.0]), ag.tensor([3.0]), ag.tensor([1.0]))
    tensor(2.)
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: "
                           f"{_shapes(input1=input1, input2=input2, target=target)}")
    return settle((margin - target * (input1 - input2)).clamp(0), reduction)


@public("hinge_embedding_loss", "nn.functional.hinge_embedding_loss")
@other_words
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1; broadcasting.

    >>> ag.hinge_embedding_loss(ag.tensor([2.0, 0.25]), ag.tensor([1, -1]), reduction="none")
    tensor([2.  , 0.75])
    """
    far = RECORD.where(RECORD.ne(target, 1), (margin - input).clamp(0), 0.0)
    return settle(far + RECORD.where(RECORD.ne(target, -1), input, 0.0), reduction)


@public("cosine_embedding_loss", "nn.functional.cosine_embedding_loss")
@other_words
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1, with cos of the rows of two inputs (N, D).

    Inputs (D) need a 0-d target; RuntimeError for other shapes.

    >>> ag.cosine_embedding_loss(ag.tensor([[1.0, 0.0]]), ag.tensor([[0.0, 1.0]]), ag.tensor([1]))
    tensor(1.)
    """
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs "
                           f"with sizes {list(input1.shape)} and {list(input2.shape)}.")
    squares = ((x * x).sum(-1) + EPS for x in (input1, input2))
    cosine = (input1 * input2).sum(-1) / RECORD.sqrt(next(squares) * next(squares))
    alike = RECORD.where(RECORD.eq(target, 1), 1 - cosine, 0.0)
    return settle(alike + RECORD.where(RECORD.eq(target, -1), (cosine - margin).clamp(0), 0.0), reduction)


@elementwise_loss
class soft_margin:
    """The op of `soft_margin_loss`.

    >>> from autograd_gpu.ops.nn.margin_losses import soft_margin
    >>> soft_margin(ag.tensor([0.0]), ag.tensor([1.0]))
    tensor(0.6931)
    """

    def formula(input, target): return formulas.softplus(-target * input)
    broadcasts = ALWAYS
    wide_rules = True


@public("soft_margin_loss", "nn.functional.soft_margin_loss")
@other_words
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), broadcasting; targets are 1 and -1. Large arguments do not overflow.

    >>> ag.soft_margin_loss(ag.tensor([0.0]), ag.tensor([1.0]))
    tensor(0.6931)
    """
    return soft_margin(input, target, reduction)


# ---- triplets ----------------------------------------------------------------------------------------


@public("triplet_margin_loss", "nn.functional.triplet_margin_loss")
@other_words
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d by `pairwise_distance` with p and eps.

    With `swap`, min(d(anchor, negative), d(positive, negative)) replaces d(anchor, negative) (Balntas et al. 2016).
    ValueError unless margin > 0, RuntimeError for different numbers of dimensions.

    >>> ag.triplet_margin_loss(ag.tensor([[0.0]]), ag.tensor([[2.0]]), ag.tensor([[1.0]]), eps=0.0)
    tensor(2.)
    """

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


@public("triplet_margin_with_distance_loss", "nn.functional.triplet_margin_with_distance_loss")
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with any distance function of two tensors, by default `pairwise_distance`.

    >>> def d(a, b): return (a - b).abs().sum(-1)
    >>> x, y, z = ag.tensor([[0.0]]), ag.tensor([[2.0]]), ag.tensor([[1.0]])
    >>> ag.triplet_margin_with_distance_loss(x, y, z, distance_function=d)
    tensor(2.)
    """
    check_reduction(reduction)
    if margin <= 0:
        raise ArgumentError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
                           f"{negative.ndim}D inputs")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = RECORD.minimum(far, distance(positive, negative))
    return settle((near - far + margin).clamp(0), reduction)


# ---- classes and labels ------------------------------------------------------------------------------


def _class_margins(xp, x, target, *, p, margin):
    n, classes = x.shape
    index = xp.arange(n), target
    z = x - x[index][:, None]
    z += constant(xp, margin, x.dtype)
    xp.maximum(z, constant(xp, 0, x.dtype), out=z)
    z[index] = 0
    return divided_by_count(float_sum(xp, z if p == 1 else z * z, 1, False), classes)


def _margin_derivative(F, x, target, p, margin):
    classes = x.shape[-1]
    away = x - F.gather_along(x, F.unsqueeze(target, -1), -1) + margin
    mine = F.cast(F.one_hot(target, classes), x.dtype)
    slope = F.cast(away > 0, x.dtype) * (1 - mine)
    slope = slope if p == 1 else slope * away * 2
    return (slope - mine * F.sum(slope, -1, True)) / classes


def _rows_of_all(F, n, batched, inputs):
    """The rows of x and target of the whole batch, and the shape (examples, rows of an example)."""
    x, target = expanded(F, n, batched, inputs)
    rows = n * x.shape[1]
    return F.reshape(x, (rows, x.shape[2])), F.reshape(target, (rows, *target.shape[2:])), (n, x.shape[1])


def _batch_class_margins(F, n, batched, *inputs, p, margin):
    x, target, shape = _rows_of_all(F, n, batched, inputs)
    return F.reshape(F.class_margins(x, target, p, margin), shape)


def _batch_label_margins(F, n, batched, *inputs):
    x, target, shape = _rows_of_all(F, n, batched, inputs)
    out, extras = F.keeping_saved("label_margins", (x, target), {})
    return F.reshape(out, shape), {"slope": F.reshape(extras["slope"], (*shape, x.shape[1]))}


@defop
class class_margins:
    """multi_margin_loss of each row of x (N, C) with classes `target` (N).

    >>> from autograd_gpu.ops.nn.margin_losses import class_margins
    >>> class_margins(ag.tensor([[0.0, 0.5, -3.0]]), ag.tensor([0]), 1, 1.0)
    tensor([0.5])
    """

    forward = in_float32(_class_margins)
    def grad_x(F, g, x, target, p, margin): return F.unsqueeze(g, -1) * _margin_derivative(F, x, target, p, margin)
    def jvp(F, t, x, target, p, margin): return F.sum(t[0] * _margin_derivative(F, x, target, p, margin), -1)
    batch = _batch_class_margins
    integral, types, promoted = ("target",), FLOAT, ("x",)


def _label_margins(pairs, xp, x, target):
    """The losses and their derivatives by x; rows are taken together while they have up to `pairs` pairs of classes."""
    n, classes = x.shape
    y = x.astype(float64, copy=False)  # so that both implementations find the same ties
    if backend.few(x, FEW // (classes or 1)):
        out, slope = _few_label_margins(y.tolist(), target.tolist())
        out, slope = np.array(out, y.dtype), np.array(slope, y.dtype).reshape(x.shape)
    else:
        out, slope = xp.empty(n), xp.empty(x.shape)
        step = max(1, min(pairs // (classes or 1) ** 2, n))
        scratch = xp.empty((2, step, classes, classes))
        for rows in (slice(start, start + step) for start in range(0, n, step)):
            out[rows], slope[rows] = _margins_of_rows(xp, y[rows], target[rows], scratch)
    out, slope = ((part / (classes or 1)).astype(x.dtype, copy=False) for part in (out, slope))
    return out, {"slope": slope}


def _margins_of_rows(xp, y, target, scratch):
    """The sums of the margins of all pairs of a label and another class, and their derivatives by y."""
    n, classes = y.shape
    valid = xp.cumsum(target < 0, axis=1) == 0
    places = xp.arange(n)[:, None], xp.where(valid, target, classes)  # column `classes` takes what is no label
    is_label = xp.zeros((n, classes + 1), bool)
    is_label[places] = True
    labels = xp.where(valid, 1 - xp.take_along_axis(y, xp.maximum(target, 0), 1), -np.inf)
    others = xp.where(is_label[:, :-1], -np.inf, y)
    with np.errstate(invalid="ignore"):  # inf - inf, which is no margin
        z = xp.add(labels[:, :, None], others[:, None, :], out=scratch[0, :n])
    active = xp.greater(z, 0, out=scratch[1, :n])  # as floats, whose sums are faster than those of booleans
    slope = xp.zeros((n, classes + 1), int64)
    slope[:, :-1] = active.sum(axis=1)
    counts = active.sum(axis=2).astype(int64)  # added, since a label may come twice
    slope = add_at(xp, slope, -2, places, -counts, "multilabel_margin_loss")
    return xp.fmax(z, 0, out=z).sum(axis=(1, 2)), slope[:, :-1]


def _few_label_margins(rows, targets):
    """label_margins for few elements, where Python lists are faster."""
    out, slopes = [], []
    for row, target in zip(rows, targets, strict=True):
        labels = list(itertools.takewhile(lambda label: label >= 0, target))
        others = [c for c in range(len(row)) if c not in labels]
        total, slope = 0.0, [0] * len(row)
        for label in labels:
            for c in others:
                z = 1 - row[label] + row[c]
                if z > 0:
                    total += z
                    slope[c] += 1
                    slope[label] -= 1
        out.append(total)
        slopes.append(slope)
    return out, slopes


@defop
class label_margins:
    """multilabel_margin_loss of each row of x with its labels, both (N, C).

    >>> from autograd_gpu.ops.nn.margin_losses import label_margins
    >>> label_margins(ag.tensor([[0.0, 0.5, -3.0]]), ag.tensor([[0, -1, 1]]))
    tensor([0.5])
    """

    forward, cuda = partial(_label_margins, 1 << 15), partial(_label_margins, 1 << 24)
    def grad_x(F, g, slope): return F.unsqueeze(g, -1) * slope
    def jvp(F, t, slope): return F.sum(t[0] * slope, -1)
    batch = _batch_label_margins
    integral, types, promoted, saved = ("target",), FLOAT, ("x",), ("slope",)


def _as_rows(input: Tensor, name: str) -> Tensor:
    if input.ndim > 2:
        raise RuntimeError(f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
                           f"{list(input.shape)}")
    return input if input.ndim == 2 else input.reshape(1, -1)


def _classes(target: Tensor, count: int, lowest: int, message: str) -> Tensor:
    """`target`, after checks of its dtype and, on the CPU, of its values."""
    if target.dtype != int64:
        raise RuntimeError(f"expected scalar type int64 but found {target.dtype}")
    check_values(target, lambda values: _check_classes(values, count, lowest, message))
    return target


def _check_classes(values: Any, count: int, lowest: int, message: str) -> None:
    if backend.seen_outside(values, lowest, count - 1):
        raise RuntimeError(message)


@public("multi_margin_loss", "nn.functional.multi_margin_loss")
@other_words
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The sum over classes j other than the target y of max(0, margin - input[y] + input[j]) ** p, divided by C.

    input (N, C) and classes (N), or (C) and 0-d; p is 1 or 2; `weight` (C) are weights of the target classes.
    ValueError for any other p, RuntimeError for invalid shapes and for a target on the CPU that is out of range.

    >>> ag.multi_margin_loss(ag.tensor([[0.0, 0.5, -3.0]]), ag.tensor([0]))
    tensor(0.5)
    """
    if p not in (1, 2):
        raise ArgumentError("only p == 1 and p == 2 supported")
    rows = _as_rows(input, "multi_margin_loss")
    n, classes = rows.shape
    if target.numel() != n or target.ndim > 1:
        raise RuntimeError("multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
                           f"samples (batch size). Expected target size [{n}], but got {list(target.shape)}. Input has "
                           f"shape {list(input.shape)}.")
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    target = _classes(target if target.ndim else target.reshape(1), classes, 0, "target out of range")
    losses = class_margins(rows, target, p, margin)
    if weight is not None:
        losses = losses * weight.index_select(0, target)
    return settle(losses if input.ndim == 2 else losses.reshape(()), reduction)


@public("multilabel_margin_loss", "nn.functional.multilabel_margin_loss")
@other_words
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The sum over labels y and all other classes i of max(0, 1 - input[y] + input[i]), divided by C.

    input (N, C) or (C); target, of the same shape, holds the labels up to the first -1. RuntimeError
    for another shape and for a target on the CPU that is out of range and not -1.

    >>> ag.multilabel_margin_loss(ag.tensor([0.0, 0.5, -3.0]), ag.tensor([0, -1, 1]))
    tensor(0.5)
    """
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows, labels = _as_rows(input, "multilabel_margin_loss"), _as_rows(target, "multilabel_margin_loss")
    classes = rows.shape[1]
    if not classes:
        raise RuntimeError("multilabel_margin_loss: expected an input of one class or more, (C) or (N, C), got one of "
                           f"shape {list(input.shape)}")
    _classes(labels, classes, -1, "argument #2 'target' is out of range")
    losses = label_margins(rows, labels)
    return settle(losses if input.ndim == 2 else losses.reshape(()), reduction)


@public("multilabel_soft_margin_loss", "nn.functional.multilabel_soft_margin_loss")
@other_words
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Binary cross entropy of logits, averaged over the last dimension; `weight` scales the classes.

    >>> ag.multilabel_soft_margin_loss(ag.tensor([[0.0, 0.0]]), ag.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    if not input.ndim:
        raise IndexError("multilabel_soft_margin_loss: expected an input of one dimension or more, (C) or (N, C), got "
                         "a 0-d tensor")
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    losses = losses if weight is None else losses * weight
    return settle(losses.mean(-1), reduction)
