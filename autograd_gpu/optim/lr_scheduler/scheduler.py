"""The base class of learning rate schedulers."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

from ...backend.cuda import live_numbers
from ...core.interpret.tracing import refuse as refuse_traced
from ...core.tensor import Tensor
from ..optimizer import Optimizer
from ..param_groups import number, set_lr

_EPOCH = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. With an epoch the closed form is used instead of the chainable form, "
    "where there is one."
)
_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the learning rate schedule "
    "is skipped. Call `optimizer.step()` before `lr_scheduler.step()`."
)


def refuse_capture() -> None:
    """Raises RuntimeError in the capture of a CUDA graph; a traced call stays eager."""
    refuse_traced("step() of a learning-rate scheduler", "call it outside of the compiled function")
    live_numbers.refuse("step() of a scheduler", "since it sets numbers on the host, which a replay does not",
                        "call it after the replay")


class LRScheduler:
    """Base class of schedulers: a subclass defines `get_lr`, which returns one learning rate per parameter group.

    The constructor sets each group's "initial_lr" to its lr, and performs step 0. `last_epoch` is the number of the
    last step, -1 to start; else the groups must have an "initial_lr" (KeyError).

    >>> class Halving(ag.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[float]
    _ag_not_saved: tuple[str, ...] = ("optimizer", "_steps_before")

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.detach().clone() if isinstance(lr, Tensor) else number("lr", lr))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state dict first, or start with last_epoch=-1"
                )
        self.base_lrs: list[float] = [number("initial_lr", group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch
        self._steps_before = optimizer._ag_steps_taken
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def step(self, epoch: int | None = None) -> None:
        """Advances one step and sets each group's lr; call it after `optimizer.step()`.

        UserWarning if the optimizer has not stepped before the first call. `epoch` (deprecated) jumps to that step.
        RuntimeError in the capture of a CUDA graph.
        """
        refuse_capture()
        if self._step_count == 1 and self.optimizer._ag_steps_taken == self._steps_before:
            warnings.warn(_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(_EPOCH, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._get_lr_called_within_step = True
        try:
            values = self._get_closed_form_lr() if epoch is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._ag_set(values)

    def _ag_set(self, values: list[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, lr)
        self._last_lr = self._ag_lrs()

    def get_lr(self) -> list[float]:
        """The learning rates of step `last_epoch`, from those of the previous step; called by `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def _get_closed_form_lr(self) -> list[float]:
        """The learning rates of step `last_epoch` in closed form."""
        return self.get_lr()

    def get_last_lr(self) -> list[float]:
        """The learning rates that the last step set, one per group."""
        return self._last_lr

    def _ag_lrs(self) -> list[float]:
        return [number("lr", group["lr"]) for group in self.optimizer.param_groups]

    def _ag_warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, to save and to load."""
        return {key: value for key, value in self.__dict__.items() if key not in self._ag_not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave, here or in PyTorch."""
        self.__dict__.update(state_dict)


def check_optimizer(optimizer: Any) -> Optimizer:
    """`optimizer`; TypeError if it is none."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """`value` for each group: a list or tuple of one per group, or one for all; ValueError for another length."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {count}."
        )
    return list(value)


def saved_function(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What of a user's function is saved: a callable object's attributes, nothing of a plain function."""
    return None if function is None or isinstance(function, types.FunctionType) else function.__dict__.copy()
