"""Regression losses as modules, and the base class of losses. `reduction` is "mean", "sum" or "none" (per element).

Losses also accept PyTorch's deprecated `size_average` and `reduce` as keywords, and warn as PyTorch does.
"""

from __future__ import annotations

import functools
from typing import Any

from ..core.codegen.keywords import old_reduction
from ..core.tensor import Tensor
from ..ops.nn.regression_losses import check_reduction
from . import functional as F
from .module import Module


def _with_deprecated_keywords(init: Any) -> Any:
    """Wraps an __init__ to accept `size_average` and `reduce` as keywords."""

    @functools.wraps(init)
    def wrapped(self: Loss, *args: Any, size_average: Any = None, reduce: Any = None, **kwargs: Any) -> None:
        if size_average is not None or reduce is not None:
            kwargs["reduction"] = old_reduction(size_average, reduce)
        init(self, *args, **kwargs)

    return wrapped


class Loss(Module):
    """Base class of losses with a `reduction`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and cls.__module__.startswith(__name__.rpartition(".")[0]):
            cls.__init__ = _with_deprecated_keywords(cls.__init__)  # type: ignore[method-assign]

    @_with_deprecated_keywords
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction(reduction)
        self.reduction = reduction


class WeightedLoss(Loss):
    """Base class of losses with a `weight` buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
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
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(Loss):
    """d ** 2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = input - target.

    Shapes and `reduction` as in `MSELoss`; RuntimeError if beta < 0.

    >>> ag.nn.SmoothL1Loss(beta=2.0)(ag.zeros(2), ag.tensor([1.0, 3.0])).item()
    1.125
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)
