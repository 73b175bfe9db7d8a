"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import asgd
from .optimizer import Optimizer
from .param_groups import Group, Params
from .step_count import StepCount, advance


class ASGD(Optimizer):
    """Averaged gradient descent (Polyak and Juditsky 1992): p = (1 - lambd eta) p - eta g.

    eta = lr / (1 + lambd lr t)^alpha, where t is the number of previous steps. state["ax"] equals p, and from step `t0`
    on the mean of p. weight_decay p is added to g, `maximize` negates g. `foreach` chooses how a step runs on CUDA,
    `differentiable` records it, see Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    _ag_formula = asgd
    _ag_nonnegative = ("lr", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"ax": 0.0}

    def _ag_new_state(self, group: Group) -> dict[str, Any]:
        return {"step": StepCount(), "eta": 1.0 * group["lr"], "mu": 1.0}

    def _ag_advance(self, states: list[dict[str, Any]], group: Group, fresh: list[bool], keys: list[Any]) -> None:
        lr, lambd = group["lr"], group["lambd"]
        for state, step in zip(states, advance(states), strict=True):
            key = state["eta"], state["mu"]
            eta, mu = lr / (1.0 + lambd * lr * step) ** group["alpha"], 1.0 / max(1, step - group["t0"])
            state["eta"], state["mu"] = eta, mu
            keys.append(key)

    def _ag_retreat(self, state: dict[str, Any], key: tuple[Any, ...]) -> None:
        super()._ag_retreat(state, key)
        state["eta"], state["mu"] = key

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        eta, mu = key
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "keep": 1.0 - eta * (group["lambd"] + group["weight_decay"]),
            "rate": eta,
            "mu": mu,
        }
