"""Losses as modules. `reduction` is "mean", "sum" or "none" (one value per element or row)."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'")
        self.reduction = reduction


class MSELoss(_Loss):
    """(input - target)^2, for float tensors of one shape: others broadcast, with a warning.

    `reduction` "mean" (the default) or "sum" makes one number of the elements' losses, "none" keeps their
    shape; another one is a ValueError.

    >>> ag.nn.MSELoss()(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    5.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """|input - target|, for float tensors of one shape: others broadcast, with a warning.

    `reduction` "mean" (the default) or "sum" makes one number of the elements' losses, "none" keeps their
    shape; another one is a ValueError.

    >>> ag.nn.L1Loss()(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    2.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(self, weight: Tensor | None, reduction: str) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WeightedLoss):
    """Softmax cross entropy of logits (N, C, ...) and classes (N, ...), or class probabilities (N, C, ...).

    `weight` (C,) weighs the classes, rows of class `ignore_index` do not count, and `label_smoothing` mixes
    that share of the uniform distribution into the target. `reduction` "mean" (the default) divides the sum of
    the losses by that of the weights, "sum" does not divide, "none" gives a loss per class in the target; another
    one is a ValueError.

    >>> ag.nn.CrossEntropyLoss()(ag.tensor([[0.0, 100.0]]), ag.tensor([1])).item()
    0.0
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Minus the entry of the log-probabilities (N, C, ...) at the classes (N, ...).

    `weight` (C,) weighs the classes and rows of class `ignore_index` do not count. `reduction` "mean" (the default)
    divides the sum of the losses by that of the weights, "sum" does not divide, "none" gives a loss per class in
    the target; another one is a ValueError.

    >>> ag.nn.NLLLoss()(ag.tensor([[-1.0, -2.0]]), ag.tensor([1])).item()
    2.0
    """

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)
