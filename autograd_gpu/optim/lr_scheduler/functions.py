"""Schedulers by a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler, saved_function

Factor = Callable[[int], float]


class _ByFunction(LRScheduler):
    """One function per group, in `lr_lambdas`; saved only if it is an object with attributes, not a plain function."""

    _ag_not_saved = (*LRScheduler._ag_not_saved, "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Any] = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def _ag_factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions; of a callable object the attributes."""
        return {**super().state_dict(), "lr_lambdas": [saved_function(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave; plain functions stay as they are."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """lr = initial lr times `lr_lambda(step)`; a list gives each group its own function.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[float]:
        """The initial learning rates times the functions' values."""
        self._ag_warn_outside_step()
        return [lr * factor for lr, factor in zip(self.base_lrs, self._ag_factors(), strict=True)]


class MultiplicativeLR(_ByFunction):
    """Multiplies lr by `lr_lambda(step)` at each step; a list gives each group its own function.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[float]:
        """The learning rates times the functions' values."""
        self._ag_warn_outside_step()
        if self._is_initial:
            return self._ag_lrs()
        return [lr * factor for lr, factor in zip(self._ag_lrs(), self._ag_factors(), strict=True)]
