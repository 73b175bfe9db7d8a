"""Cosine schedulers."""

from __future__ import annotations

import math

from ..optimizer import Optimizer
from .scheduler import LRScheduler, refuse_capture


def _one_and_cosine(t: float, end: float) -> float:
    """1 + cos(pi t / end), which falls from 2 to 0, in PyTorch's order of operations: results agree to the last bit."""
    return 1.0 + math.cos(math.pi * t / end)


class CosineAnnealingLR(LRScheduler):
    """Anneals lr to `eta_min` by a half cosine in `T_max` steps, then back up (Loshchilov and Hutter 2017).

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates, from those of the previous step, so that other schedulers may change them, too."""
        self._ag_warn_outside_step()
        if self._is_initial:
            return self._ag_lrs()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the bottom, where the ratio is 0 / 0
            rise = 1.0 - math.cos(math.pi / self.T_max)
            return [
                lr + (base - self.eta_min) * rise / 2.0 for lr, base in zip(self._ag_lrs(), self.base_lrs, strict=True)
            ]
        ratio = _one_and_cosine(self.last_epoch, self.T_max) / _one_and_cosine(self.last_epoch - 1, self.T_max)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in self._ag_lrs()]

    def _get_closed_form_lr(self) -> list[float]:
        height = _one_and_cosine(self.last_epoch, self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2.0 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial lr to `eta_min`, the first of `T_0` steps, each next one `T_mult` times as long.

    `step(epoch)` accepts fractions, for steps within an epoch: epoch + i / iterations.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates at step `T_cur` of the current cosine of `T_i` steps."""
        self._ag_warn_outside_step()
        height = _one_and_cosine(self.T_cur, self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2.0 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advances to the next step, or to `epoch`, which may be fractional."""
        refuse_capture()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._ag_place(epoch)
        self._step_count += 1
        self._update_lr(math.floor(epoch))

    def _ag_place(self, epoch: float) -> None:
        """Sets T_cur and T_i to the cosine that contains `epoch`."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self.T_cur, self.T_i = epoch, self.T_0
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**restarts
