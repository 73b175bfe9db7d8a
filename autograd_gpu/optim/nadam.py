"""NAdam."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import nadam
from .optimizer import Optimizer
from .param_groups import Group, Params, adam_numbers, check_betas
from .step_count import StepCount, advance


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016), with a momentum schedule controlled by `momentum_decay`.

    mu_t = betas[0] (1 - 0.96^(t momentum_decay) / 2), and the step is that of Adam with m' replaced by
    mu_{t+1} m / (1 - mu_1 ... mu_{t+1}) + (1 - mu_t) g / (1 - mu_1 ... mu_t). weight_decay p is added to g, or with
    `decoupled_weight_decay` subtracted from p as in AdamW; `maximize` negates g. `foreach` chooses how a step runs on
    CUDA, `differentiable` records it, see Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.NAdam([w], lr=0.1)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> round(w.item(), 4)
    0.8944
    """

    _ag_formula = nadam
    _ag_nonnegative = ("lr", "eps", "weight_decay", "momentum_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        check_betas(group)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _ag_new_state(self, group: Group) -> dict[str, Any]:
        return {"step": StepCount(), "mu_product": 1.0}

    def _ag_advance(self, states: list[dict[str, Any]], group: Group, fresh: list[bool], keys: list[Any]) -> None:
        for state, step in zip(states, advance(states), strict=True):
            before = state["mu_product"]
            product = before * _momentum(group, step)
            state["mu_product"] = product
            keys.append((step, product, before))

    def _ag_retreat(self, state: dict[str, Any], key: tuple[Any, ...]) -> None:
        super()._ag_retreat(state, key)
        state["mu_product"] = key[2]

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        step, product, _ = key
        lr, beta2 = group["lr"], group["betas"][1]
        now, after = _momentum(group, step), _momentum(group, step + 1)
        root2 = (1.0 - beta2**step) ** 0.5
        return {
            **adam_numbers(group),
            "rate": lr * root2 * after / (1.0 - product * after),
            "rate_now": lr * root2 * (1.0 - now) / (1.0 - product),
            "eps": group["eps"] * root2,
        }


def _momentum(group: Group, step: int) -> float:
    momentum: float = group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
    return momentum
