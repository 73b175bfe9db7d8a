"""RMSprop."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import rmsprop
from .optimizer import Optimizer
from .param_groups import Group, Params


class RMSprop(Optimizer):
    """p -= lr g / (sqrt(v) + eps), with v the moving average of g^2 of decay `alpha` (Hinton 2012, lecture 6e).

    `centered` subtracts the square of the mean gradient from v (Graves 2013). `momentum` accumulates the steps:
    b = momentum b + g / (sqrt(v) + eps). weight_decay p is added to g, `maximize` negates g. `foreach` chooses how a
    step runs on CUDA, `differentiable` records it, see Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.RMSprop([w], lr=0.05, alpha=0.75)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9], requires_grad=True)
    """

    _ag_formula = rmsprop
    _ag_nonnegative = ("lr", "eps", "momentum", "weight_decay", "alpha")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        slots = {"square_avg": 0.0}
        if group["momentum"]:
            slots["momentum_buffer"] = 0.0
        if group["centered"]:
            slots["grad_avg"] = 0.0
        return slots

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "decay": group["weight_decay"],
            "lr": group["lr"],
            "alpha": group["alpha"],
            "eps": group["eps"],
            "momentum": group["momentum"],
        }
