"""Negative log-likelihood losses as modules: categorical, binary, Gaussian, Poisson; and KL divergence."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .regression_losses import Loss, WeightedLoss


class CrossEntropyLoss(WeightedLoss):
    """Softmax cross entropy of logits (N, C, ...) and classes (N, ...), or class probabilities (N, C, ...).

    `weight` (C,) holds class weights, targets equal to `ignore_index` are ignored, and `label_smoothing` is the weight
    of the uniform distribution in the target. `reduction` "mean" (the default) divides the sum of the losses by the sum
    of the weights, "sum" does not divide, "none" returns a loss per target; ValueError for another value.

    >>> ag.nn.CrossEntropyLoss()(ag.tensor([[0.0, 100.0]]), ag.tensor([1])).item()
    0.0
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )  # fmt: skip


class NLLLoss(WeightedLoss):
    """The negative log-likelihood of classes (N, ...) under log-probabilities (N, C, ...).

    `weight` (C,) holds class weights, and targets equal to `ignore_index` are ignored. `reduction` "mean" (the default)
    divides the sum of the losses by the sum of the weights, "sum" does not divide, "none" returns a loss per target;
    ValueError for another value.

    >>> ag.nn.NLLLoss()(ag.tensor([[-1.0, -2.0]]), ag.tensor([1])).item()
    2.0
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(WeightedLoss):
    """-target * log(input) - (1 - target) * log(1 - input), both in [0, 1] and of the same shape.

    `weight` scales the losses of the elements. For logits `BCEWithLogitsLoss` is more accurate.

    >>> ag.nn.BCELoss()(ag.tensor([1.0]), ag.tensor([1.0])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """Binary cross entropy of sigmoid(input) and a target in [0, 1] of the same shape; accurate for large logits.

    `weight` scales the losses of the elements, `pos_weight` their term with the target; both broadcast.

    >>> ag.nn.BCEWithLogitsLoss()(ag.tensor([200.0]), ag.tensor([1.0])).item()
    0.0
    """

    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(Loss):
    """target * (log(target) - input) for log-probabilities `input`; with `log_target` the target is a log, too.

    `reduction` "batchmean" divides the sum by the size of dimension 0, as in the definition of the divergence; "mean"
    (the default), "sum" and "none" as in other losses. Unlike PyTorch, "mean" does not warn.

    >>> ag.nn.KLDivLoss(reduction="batchmean")(ag.tensor([[0.5, 0.5]]).log(), ag.tensor([[0.5, 0.5]])).item()
    0.0
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class GaussianNLLLoss(Loss):
    """(log(var) + (input - target) ** 2 / var) / 2, with `full` plus log(2 pi) / 2; var is at least `eps`.

    >>> ag.nn.GaussianNLLLoss()(ag.ones(2), ag.zeros(2), ag.ones(2)).item()
    0.5
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
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
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps, self.reduction)
