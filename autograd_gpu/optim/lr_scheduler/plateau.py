"""ReduceLROnPlateau."""

from __future__ import annotations

import math
import warnings
from typing import Any, SupportsFloat

from ..optimizer import Optimizer
from ..param_groups import number, set_lr
from .scheduler import _EPOCH, LRScheduler, check_optimizer, refuse_capture


class ReduceLROnPlateau(LRScheduler):
    """Multiplies lr by `factor` when a metric has not improved for more than `patience` steps.

    An improvement is below (`mode` "min") or above ("max") the best value so far by `threshold`, relative or absolute
    (`threshold_mode` "rel" or "abs"). After a reduction `cooldown` steps are not counted. lr stays at least `min_lr`,
    a number or a list with one per group; reductions by less than `eps` are skipped.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = check_optimizer(optimizer)
        count = len(optimizer.param_groups)
        several = isinstance(min_lr, list | tuple)
        self.default_min_lr = None if several else min_lr
        self.min_lrs: list[Any] = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(self.min_lrs)}")
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._ag_lrs()

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Records the metric of this epoch, and reduces the learning rates if due."""
        refuse_capture()
        current = float(metrics)
        if epoch is not None:
            warnings.warn(_EPOCH, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._ag_lrs()

    def _reduce_lr(self, epoch: int) -> None:
        """Reduces the learning rates; a user may replace it."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            before = number("lr", group["lr"])
            lr = max(before * self.factor, least)
            if before - lr > self.eps:
                set_lr(group, lr)

    @property
    def in_cooldown(self) -> bool:
        """Whether the cooldown after a reduction is running."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        margin = best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return sign * value > sign * margin
