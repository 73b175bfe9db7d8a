"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backend.optimizers import sgd_step
from ..core.tensor import Tensor, wrap
from ..core.views import bump_version
from .optimizer import Group, Optimizer, with_grads


class SGD(Optimizer):
    """Gradient descent: b = momentum b + (1 - dampening) g; p -= lr b (nesterov: p -= lr (g + momentum b)).

    g is the gradient (negated with `maximize`) plus weight_decay p, and b starts as the first g.

    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        if not group["momentum"] >= 0.0:
            raise ValueError(f"Invalid momentum value: {group['momentum']}")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _update(self, group: Group) -> None:
        params, arrays, grads = with_grads(group)
        momentum = group["momentum"]
        buffers = [self._buffer(param) for param in params] if momentum else []
        sgd_step(
            arrays,
            grads,
            buffers,
            lr=group["lr"],
            momentum=momentum,
            dampening=group["dampening"],
            weight_decay=group["weight_decay"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
        for param in params:
            bump_version(param)
        for param, buffer in zip(params, buffers, strict=False):
            state = self.state[param]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = wrap(buffer)

    def _buffer(self, param: Tensor) -> Any:
        buffer = self.state[param].get("momentum_buffer")
        return None if buffer is None else buffer.array
