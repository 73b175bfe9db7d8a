"""Margin losses as modules. `reduction` is "mean", "sum" or "none" (one loss per element or row)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from .regression_losses import Loss, WeightedLoss


class _MarginLoss(Loss):
    def __init__(self, margin: float, *reduction: Any) -> None:
        super().__init__(*reduction)
        self.margin = margin

    def _ag_check_positive(self) -> None:
        if self.margin <= 0:
            raise ValueError(f"{type(self).__name__}: expected margin to be greater than 0, got {self.margin} instead")


class MarginRankingLoss(_MarginLoss):
    """max(0, margin - target * (input1 - input2)): input1 should rank higher for target 1, input2 for target -1.

    >>> ag.nn.MarginRankingLoss()(ag.tensor([1.0]), ag.tensor([3.0]), ag.tensor([1.0])).item()
    2.0
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """input where target is 1, max(0, margin - input) where it is -1.

    >>> ag.nn.HingeEmbeddingLoss()(ag.tensor([2.0]), ag.tensor([1])).item()
    2.0
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; cos is that of the rows of two inputs (N, D).

    >>> ag.nn.CosineEmbeddingLoss()(ag.tensor([[1.0, 0.0]]), ag.tensor([[0.0, 1.0]]), ag.tensor([1])).item()
    1.0
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + exp(-target * input)) for targets 1 and -1.

    >>> ag.nn.SoftMarginLoss()(ag.tensor([100.0]), ag.tensor([-1.0])).item()
    100.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, self.reduction)


class MultiMarginLoss(WeightedLoss):
    """The sum over classes j other than the target y of max(0, margin - input[y] + input[j]) ** p, divided by C.

    >>> ag.nn.MultiMarginLoss()(ag.tensor([[0.0, 0.5, -3.0]]), ag.tensor([0])).item()
    0.5
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(Loss):
    """The sum of max(0, 1 - input[y] + input[i]) over labels y and classes i that are not labels, divided by C.

    A row of the target holds the labels up to the first -1.

    >>> ag.nn.MultiLabelMarginLoss()(ag.tensor([0.0, 0.5, -3.0]), ag.tensor([0, -1, 1])).item()
    0.5
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Binary cross entropy of logits, averaged over the last dimension; `weight` scales the classes.

    >>> ag.nn.MultiLabelSoftMarginLoss()(ag.tensor([[200.0, -200.0]]), ag.tensor([[1.0, 0.0]])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class TripletMarginLoss(_MarginLoss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), with d the p-norm of the difference plus eps.

    With `swap` d(positive, negative) replaces d(anchor, negative) where it is smaller. ValueError for a margin that is
    not positive.

    >>> ag.nn.TripletMarginLoss(eps=0.0)(ag.tensor([[0.0]]), ag.tensor([[2.0]]), ag.tensor([[1.0]])).item()
    2.0
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)
        self._ag_check_positive()
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )


class TripletMarginWithDistanceLoss(_MarginLoss):
    """`TripletMarginLoss` with a distance function of two tensors, by default `pairwise_distance`.

    >>> loss = ag.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(ag.tensor([[0.0]]), ag.tensor([[2.0]]), ag.tensor([[1.0]])).item()
    2.0
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, None, None, reduction)
        self._ag_check_positive()
        self.distance_function = distance_function
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip
