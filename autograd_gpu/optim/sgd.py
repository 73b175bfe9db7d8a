"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import sgd
from .optimizer import Optimizer
from .param_groups import Group, Params


class SGD(Optimizer):
    """Gradient descent: b = momentum b + (1 - dampening) g; p -= lr b (nesterov: p -= lr (g + momentum b)).

    g is the gradient (negated with `maximize`) plus weight_decay p, and b is initialized to the first g. `foreach` and
    `fused` choose how a step runs on CUDA, `differentiable` records it, see Optimizer.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8], requires_grad=True)
    """

    _ag_formula = sgd
    _ag_nonnegative = ("lr", "momentum", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"momentum_buffer": 0.0} if group["momentum"] else {}

    def _ag_new_state(self, group: Group) -> dict[str, Any]:
        return {}

    def _ag_advance(self, states: list[dict[str, Any]], group: Group, fresh: list[bool], keys: list[Any]) -> None:
        keys += [(first,) for first in fresh]

    def _ag_retreat(self, state: dict[str, Any], key: tuple[Any, ...]) -> None:
        """Does nothing: SGD counts no steps."""

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (first,) = key
        return {
            "sign": -1.0 if group["maximize"] else 1.0,
            "decay": group["weight_decay"],
            "lr": group["lr"],
            "momentum": group["momentum"],
            "kept": 0.0 if first else group["momentum"],
            "damped": 1.0 if first else 1.0 - group["dampening"],
            "nesterov": 1.0 if group["nesterov"] else 0.0,
        }
