"""Adamax."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import adamax
from .optimizer import Optimizer
from .param_groups import Group, Params, check_betas


class Adamax(Optimizer):
    """Adam with the infinity norm of past gradients in place of the root mean square (Kingma and Ba 2015, section 7).

    m averages the gradient g with betas[0], u = max(betas[1] u, |g| + eps), and p -= lr m / ((1 - betas[0]^t) u);
    weight_decay p is added to g, `maximize` negates g. `foreach` chooses how a step runs on CUDA, `differentiable`
    records it, see Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adamax([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    _ag_formula = adamax
    _ag_nonnegative = ("lr", "eps", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        check_betas(group)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (step,) = key
        beta1, beta2 = group["betas"]
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "decay": group["weight_decay"],
            "beta1": beta1,
            "beta2": beta2,
            "rate": group["lr"] / (1.0 - beta1**step),
            "eps": group["eps"],
        }
