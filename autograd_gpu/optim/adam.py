"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backend.optimizers import adam_step
from ..core.tensor import Tensor
from ..core.views import bump_version
from .optimizer import Group, Optimizer, with_grads, zeros_like


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015): p -= lr m' / (sqrt(v') + eps), m' and v' the bias-corrected moving averages.

    m averages the gradient g with betas[0], v averages g^2 with betas[1]; weight_decay p is added to g.
    `amsgrad` uses the largest v so far (Reddi et al. 2018); `maximize` negates g.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adam([w], lr=0.25)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    _decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        if not group["eps"] >= 0.0:
            raise ValueError(f"Invalid epsilon value: {group['eps']}")
        for i, beta in enumerate(group["betas"]):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")

    def _update(self, group: Group) -> None:
        params, arrays, grads = with_grads(group)
        amsgrad = group["amsgrad"]
        exp_avgs, exp_avg_sqs, largest, steps = [], [], [], []
        for param in params:
            state = self.state[param]
            if not state:
                state.update(step=0, exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
            if amsgrad and "max_exp_avg_sq" not in state:
                state["max_exp_avg_sq"] = zeros_like(param)
            state["step"] = step = state["step"] + 1
            steps.append(step)
            exp_avgs.append(state["exp_avg"].array)
            exp_avg_sqs.append(state["exp_avg_sq"].array)
            if amsgrad:
                largest.append(state["max_exp_avg_sq"].array)
        adam_step(
            arrays,
            grads,
            exp_avgs,
            exp_avg_sqs,
            largest,
            steps,
            lr=group["lr"],
            betas=group["betas"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            decoupled=self._decoupled,
            maximize=group["maximize"],
        )
        for param in params:
            bump_version(param)


class AdamW(Adam):
    """Adam with weight decay decoupled from the gradient: p *= 1 - lr weight_decay before each step.

    Loshchilov and Hutter 2019; everything else is as in Adam.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> ag.optim.AdamW([w]).defaults["weight_decay"]
    0.01
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
