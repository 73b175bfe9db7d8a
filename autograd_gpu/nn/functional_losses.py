"""nn.functional's regression losses with a `weight` per element, which the ops do not have."""

from __future__ import annotations

from .. import ops
from ..core.codegen.keywords import other_words
from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..ops.nn.loss_reduction import check_reduction


@other_words
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target) ** 2, times `weight` if given; see ag.mse_loss.

    The mean of weighted losses is divided by the sum of the weights. ValueError for a weight of another shape.

    >>> ag.nn.functional.mse_loss(ag.zeros(2), ag.tensor([1.0, 3.0]), weight=ag.tensor([3.0, 1.0]))
    tensor(3.)
    """
    if weight is None:
        return ops.mse_loss(input, target, reduction)
    return _weighed(ops.mse_loss(input, target, "none"), input, weight, reduction)


@other_words
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, times `weight` if given; see ag.l1_loss.

    The mean of weighted losses is divided by the sum of the weights. ValueError for a weight of another shape.

    >>> ag.nn.functional.l1_loss(ag.zeros(2), ag.tensor([1.0, 3.0]), weight=ag.tensor([3.0, 1.0]))
    tensor(1.5)
    """
    if weight is None:
        return ops.l1_loss(input, target, reduction)
    return _weighed(ops.l1_loss(input, target, "none"), input, weight, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """The Huber loss, quadratic below delta and linear above, times `weight` if given; see ag.huber_loss.

    The mean of weighted losses is divided by their number. ValueError for a weight of another shape.

    >>> ag.nn.functional.huber_loss(ag.zeros(2), ag.tensor([1.0, 3.0]), weight=ag.tensor([4.0, 2.0]))
    tensor(3.5)
    """
    if weight is None:
        return ops.huber_loss(input, target, reduction, delta)
    losses = _times(ops.huber_loss(input, target, "none", delta), input, weight, reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _times(losses: Tensor, input: Tensor, weight: Tensor, reduction: str) -> Tensor:
    check_reduction(reduction)
    if weight.shape != input.shape:
        raise ArgumentError(f"Weights and input must have the same size; got {list(weight.shape)} and "
                            f"{list(input.shape)}")
    return losses * weight


def _weighed(losses: Tensor, input: Tensor, weight: Tensor, reduction: str) -> Tensor:
    losses = _times(losses, input, weight, reduction)
    if reduction == "none":
        return losses
    return losses.sum() / weight.sum() if reduction == "mean" else losses.sum()
