"""Adadelta."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import adadelta
from .optimizer import Optimizer
from .param_groups import Group, Params


class Adadelta(Optimizer):
    """p -= lr d with d = g sqrt(D + eps) / sqrt(v + eps) (Zeiler 2012); v averages g^2, D the previous d^2.

    `rho` is the decay of both averages; weight_decay p is added to g, `maximize` negates g. `foreach` chooses how a
    step runs on CUDA, `differentiable` records it, see Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adadelta([w], eps=0.25, rho=0.75)
    >>> (w * 3**0.5).sum().backward()
    >>> optimizer.step()
    >>> round(w.item(), 4)
    0.134
    """

    _ag_formula = adadelta
    _ag_nonnegative = ("lr", "eps", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        if not 0.0 <= group["rho"] <= 1.0:
            raise ValueError(f"Invalid rho value: {group['rho']}")

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "decay": group["weight_decay"],
            "lr": group["lr"],
            "rho": group["rho"],
            "eps": group["eps"],
        }
