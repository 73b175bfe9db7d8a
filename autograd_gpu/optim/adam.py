"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from ..backend.optimizers.formulas import adam
from .optimizer import Optimizer
from .param_groups import Group, Params, adam_numbers, check_betas


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015): p -= lr m' / (sqrt(v') + eps), m' and v' the bias-corrected moving averages.

    m averages the gradient g with betas[0], v averages g^2 with betas[1]; weight_decay p is added to g, or with
    `decoupled_weight_decay` subtracted from p as in AdamW. `amsgrad` uses the maximum of v so far (Reddi et al. 2018);
    `maximize` negates g. `foreach` and `fused` choose how a step runs on CUDA, `differentiable` records it, see
    Optimizer; `capturable` lets a CUDA graph capture it.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adam([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    _ag_formula = adam
    _ag_nonnegative = ("lr", "eps", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        check_betas(group)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**slots, "max_exp_avg_sq": 0.0} if group["amsgrad"] else slots

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, float]:
        (step,) = key
        beta1, beta2 = group["betas"]
        root2 = (1.0 - beta2**step) ** 0.5
        # lr / (1 - beta1^t) m / (sqrt(v) / root2 + eps), multiplied by root2, which saves one pass.
        return {
            **adam_numbers(group),
            "rate": group["lr"] * root2 / (1.0 - beta1**step),
            "eps": group["eps"] * root2,
        }


class AdamW(Adam):
    """Adam with weight decay decoupled from the gradient: p *= 1 - lr weight_decay before each step.

    Loshchilov and Hutter (2019); otherwise as Adam.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> ag.optim.AdamW([w]).defaults["weight_decay"]
    0.01
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def _ag_load(self, state_dict: dict[str, Any]) -> None:
        """Loads a state dict of Adam or AdamW."""
        super()._ag_load(state_dict)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
