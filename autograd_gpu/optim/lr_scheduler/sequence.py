"""Schedulers one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from ..param_groups import set_lr
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, refuse_capture


class _Several(LRScheduler):
    """A scheduler made of others, in `_schedulers`."""

    _ag_not_saved = (*LRScheduler._ag_not_saved, "_schedulers")
    _schedulers: Sequence[LRScheduler]

    def _ag_check(self, optimizer: Optimizer, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if optimizer is not scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} with another {type(scheduler.optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the state dicts of the schedulers."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave, for each scheduler its own."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Several):
    """One scheduler after the other: the next one begins, at its step 0, at each of `milestones`.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> warm_up = ag.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
    >>> decay = ag.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.25)
    >>> scheduler = ag.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.5]
    [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._ag_check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, SequentialLR):
                raise ValueError(
                    f"SequentialLR takes no other SequentialLR, but got one at index {i}: list its schedulers here"
                )
            if isinstance(scheduler, ChainedScheduler) and i > 0:
                raise ValueError(f"SequentialLR cannot start a ChainedScheduler anew at a milestone, as at index {i}")
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # the schedulers took their first steps when they were made
            set_lr(group, group["initial_lr"])
        for scheduler in schedulers:
            for made in scheduler._schedulers if isinstance(scheduler, ChainedScheduler) else [scheduler]:
                made.last_epoch -= 1
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """A step of the scheduler whose turn it is."""
        refuse_capture()
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedulers stepped together, each changing the learning rates that the one before has left.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> one = ag.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
    >>> two = ag.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = ag.optim.lr_scheduler.ChainedScheduler([one, two])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        self._ag_check(self.optimizer, schedulers)
        self._schedulers = schedulers
        self._last_lr = self._ag_lrs()

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = self._ag_lrs()

    def step(self) -> None:  # type: ignore[override]
        """A step of each scheduler."""
        refuse_capture()
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._ag_lrs()
