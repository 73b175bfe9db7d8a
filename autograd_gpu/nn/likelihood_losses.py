"""Losses that are negative log-likelihoods as modules: of classes, of yes and no, Gaussian, Poisson; and KL."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .regression_losses import Loss, WeightedLoss


class CrossEntropyLoss(WeightedLoss):
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
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )  # fmt: skip


class NLLLoss(WeightedLoss):
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
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(WeightedLoss):
    """-target * log(input) - (1 - target) * log(1 - input), both in [0, 1] and of one shape.

    `weight` scales the elements' losses. With logits `BCEWithLogitsLoss` is exact where this one is not.

    >>> ag.nn.BCELoss()(ag.tensor([1.0]), ag.tensor([1.0])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """Cross entropy of sigmoid(input) and a target in [0, 1] of the same shape; exact for large logits.

    `weight` scales the elements' losses and `pos_weight` the part of the positive target; both broadcast.

    >>> ag.nn.BCEWithLogitsLoss()(ag.tensor([200.0]), ag.tensor([1.0])).item()
    0.0
    """

    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(Loss):
    """target * (log(target) - input) of log-probabilities `input`; with `log_target` both are logarithms.

    `reduction` "batchmean" divides the sum by the size of dimension 0, as the divergence's definition does; "mean"
    (the default), "sum" and "none" as elsewhere. PyTorch warns that "mean" is not the divergence; this does not.

    >>> ag.nn.KLDivLoss(reduction="batchmean")(ag.tensor([[0.5, 0.5]]).log(), ag.tensor([[0.5, 0.5]])).item()
    0.0
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__("mean" if reduction == "batchmean" else reduction)
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class GaussianNLLLoss(Loss):
    """(log(var) + (input - target) ** 2 / var) / 2, with `full` plus log(2 pi) / 2; var is taken as `eps` at least.

    >>> ag.nn.GaussianNLLLoss()(ag.ones(2), ag.zeros(2), ag.ones(2)).item()
    0.5
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(Loss):
    """exp(input) - target * input; without `log_input` input - target * log(input + eps).

    `full` adds Stirling's approximation of log(target!) for targets above 1.

    >>> ag.nn.PoissonNLLLoss()(ag.zeros(2), ag.ones(2)).item()
    1.0
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps, self.reduction)
