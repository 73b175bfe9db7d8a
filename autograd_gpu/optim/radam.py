"""RAdam."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import radam
from .optimizer import Optimizer
from .param_groups import Group, Params, adam_numbers, check_betas


class RAdam(Optimizer):
    """Rectified Adam (Liu et al. 2020), which uses the adaptive step only after enough steps for a small variance.

    With rho_t the degrees of freedom at step t: p -= lr m' if rho_t <= 5, else p -= lr r_t m' / (sqrt(v) + eps) with
    the rectification r_t. weight_decay p is added to g, or with `decoupled_weight_decay` subtracted from p as in AdamW;
    `maximize` negates g. `foreach` chooses how a step runs on CUDA, `differentiable` records it, see Optimizer;
    `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.RAdam([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    _ag_formula = radam
    _ag_nonnegative = ("lr", "eps", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        check_betas(group)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (step,) = key
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        correction2 = 1.0 - beta2**step
        most = 2.0 / (1.0 - beta2) - 1.0
        rho = most - 2.0 * step * beta2**step / correction2
        adaptive = rho > 5.0
        rate = lr / (1.0 - beta1**step)
        if adaptive:
            rectification = (rho - 4.0) * (rho - 2.0) * most / ((most - 4.0) * (most - 2.0) * rho)
            rate *= (rectification * correction2) ** 0.5
        return {
            **adam_numbers(group),
            "rate": rate,
            "eps": group["eps"],
            "adaptive": 1.0 if adaptive else 0.0,
        }
