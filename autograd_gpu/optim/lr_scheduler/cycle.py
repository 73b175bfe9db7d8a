"""Cyclic schedulers of learning rates and momenta."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from ..param_groups import set_lr
from .scheduler import LRScheduler, check_optimizer, per_group, saved_function


class _WithMomentum(LRScheduler):
    """A scheduler that also sets the momentum, or the first beta, of each group."""

    cycle_momentum: bool
    use_beta1: bool

    def _ag_start_momentum(self, base: Any, largest: Any, last_epoch: int) -> tuple[list[float], list[float]]:
        """`base` and `largest` for each group; at the first step also stores them in the groups."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        bases, tops = per_group("base_momentum", optimizer, base), per_group("max_momentum", optimizer, largest)
        if last_epoch == -1:
            for group, low, top in zip(optimizer.param_groups, bases, tops, strict=True):
                group["max_momentum"], group["base_momentum"] = top, low
            self._ag_set_momenta(tops)
        return bases, tops

    def _ag_set_momenta(self, momenta: list[float]) -> None:
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """Cycles lr between `base_lr` and `max_lr`: up in step_size_up steps, then down (Smith 2017).

    `mode` scales the amplitude: "triangular" keeps it, "triangular2" halves it in each cycle, "exp_range" multiplies it
    by gamma^step; or `scale_fn` of the cycle or step number does (`scale_mode`: "cycle" or "iterations"). With
    `cycle_momentum` the momentum, or first beta, cycles inversely between max_momentum and base_momentum.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], momentum=0.9)
    >>> scheduler = ag.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.5, max_lr=1.0, step_size_up=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    _ag_not_saved = (*LRScheduler._ag_not_saved, "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_lr(group, lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: {mode!r} is not triangular, triangular2 or exp_range"
            )
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._ag_start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The amplitude factor at cycle or step `x`."""
        if self._scale_fn_custom is not None:
            return float(self._scale_fn_custom(x))
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[float]:
        """The learning rates of step `last_epoch`; sets the momenta on the way."""
        self._ag_warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            self._ag_set_momenta([top - (top - base) * height * scale for base, top in pairs])
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a plain scale_fn; of a callable object the attributes."""
        return {**super().state_dict(), "_scale_fn_custom": saved_function(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave; a plain scale_fn stays as it is."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])


class OneCycleLR(_WithMomentum):
    """The 1cycle policy: one rise to `max_lr` and a longer fall, in total_steps steps (Smith and Topin 2018).

    lr starts at max_lr / div_factor, peaks after the fraction pct_start of `total_steps` (or `epochs` times
    `steps_per_epoch`), and ends at its start / final_div_factor; with `three_phase` it first returns to its start.
    `anneal_strategy` is "cos" or "linear". With `cycle_momentum` the momentum, or first beta, goes from max_momentum to
    base_momentum and back. ValueError for a step beyond the last.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], momentum=0.9)
    >>> scheduler = ag.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10, div_factor=4.0)
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0.0 <= pct_start <= 1.0:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                start = top / div_factor
                group.update(initial_lr=start, max_lr=top, min_lr=start / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._ag_start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates of step `last_epoch`; sets the momenta on the way."""
        self._ag_warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        t = (self.last_epoch - start) / (phase["end_step"] - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            ends = phase["start_momentum"], phase["end_momentum"]
            self._ag_set_momenta([self._ag_between(group[ends[0]], group[ends[1]], t) for group in groups])
        return [self._ag_between(group[phase["start_lr"]], group[phase["end_lr"]], t) for group in groups]

    def _ag_between(self, start: float, end: float, t: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * t + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * t) + 1.0)


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if total_steps is not None:
        return _positive("total_steps", total_steps)
    return _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The phases: the last step of each, and the names of its start and end values."""
    up, last = pct_start * total_steps - 1.0, total_steps - 1
    if not three_phase:
        return [
            _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
        ]
    return [
        _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
        _phase(2 * pct_start * total_steps - 2.0, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]


def _phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    return {
        "end_step": end_step, "start_lr": start_lr, "end_lr": end_lr, "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }  # fmt: skip
