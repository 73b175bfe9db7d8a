"""Regression losses as modules, and the base class of losses. `reduction` is "mean", "sum" or "none" (per element).

Losses take PyTorch's deprecated `size_average` and `reduce` in PyTorch's places, and warn as PyTorch does.
"""

from __future__ import annotations

from ..core.codegen.keywords import old_reduction
from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class Loss(Module):
    """Base class of losses with a `reduction`: Loss(size_average=None, reduce=None, reduction="mean")."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = old_reduction(size_average, reduce)
        self.reduction = reduction  # checked at the call, as by PyTorch's


class WeightedLoss(Loss):
    """Base class of losses with a `weight` buffer: WeightedLoss(weight=None, size_average=None, reduce=None, ...)."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(Loss):
    """(input - target)^2 for floating-point tensors of the same shape; other shapes broadcast with a warning.

    `reduction` "mean" (the default) or "sum" returns a 0-d tensor, "none" the losses of the elements; ValueError for
    another value.

    >>> ag.nn.MSELoss()(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    5.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """|input - target| for floating-point tensors of the same shape; other shapes broadcast with a warning.

    `reduction` "mean" (the default) or "sum" returns a 0-d tensor, "none" the losses of the elements; ValueError for
    another value.

    >>> ag.nn.L1Loss()(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    2.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class HuberLoss(Loss):
    """d ** 2 / 2 where |d| < delta, else delta * (|d| - delta / 2), with d = input - target.

    Shapes and `reduction` as in `MSELoss`; RuntimeError unless delta > 0.

    >>> ag.nn.HuberLoss()(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    1.5
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(Loss):
    """d ** 2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = input - target.

    Shapes and `reduction` as in `MSELoss`; RuntimeError if beta < 0.

    >>> ag.nn.SmoothL1Loss(beta=2.0)(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    1.125
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)
