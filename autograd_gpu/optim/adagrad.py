"""Adagrad."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import adagrad
from .optimizer import Optimizer
from .param_groups import Group, Params


class Adagrad(Optimizer):
    """p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(G) + eps), G the sum of all g^2 so far (Duchi et al. 2011).

    G is initialized to `initial_accumulator_value`; weight_decay p is added to g, `maximize` negates g. `foreach` and
    `fused` choose how a step runs on CUDA, `differentiable` records it, see Optimizer. Unlike PyTorch's, the state is
    made at the first step, so the model may be moved before it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adagrad([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    _ag_formula = adagrad
    _ag_nonnegative = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"sum": group["initial_accumulator_value"]}

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (step,) = key
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "decay": group["weight_decay"],
            "lr": group["lr"] / (1.0 + (step - 1) * group["lr_decay"]),
            "eps": group["eps"],
        }
