"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import rprop
from .optimizer import Optimizer
from .param_groups import Group, Params


class Rprop(Optimizer):
    """Resilient backpropagation: a step size per element, along the gradient's sign; for full batches.

    Riedmiller and Braun (1993). A size is initialized to lr, multiplied by etas[1] where the gradient keeps its sign,
    and by etas[0] where the sign changes, where the step is skipped; it is clamped to `step_sizes`. `maximize` negates
    the gradient. `foreach` chooses how a step runs on CUDA, `differentiable` records it, see Optimizer;
    `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Rprop([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    _ag_formula = rprop
    _ag_nonnegative = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        shrink, grow = group["etas"]
        if not 0.0 < shrink < 1.0 < grow:
            raise ValueError(f"Invalid eta values: {shrink}, {grow}")

    def _ag_slots(self, group: Group) -> dict[str, float]:
        return {"prev": 0.0, "step_size": group["lr"]}

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        sign = -1.0 if group["maximize"] else 1.0
        return {"sign": sign, "shrink": shrink, "grow": grow, "smallest": smallest, "largest": largest}
