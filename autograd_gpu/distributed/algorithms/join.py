"""Join: ranks whose data end earlier keep up the collectives of the others."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from ...backend.arrays.device import Device
from ...ops import ones, zeros
from ..collectives import all_reduce
from ..work import Work


class JoinHook:
    """What a Joinable does on a rank that has no more data."""

    def main_hook(self) -> None:
        """Takes part in the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all ranks have come to their end; `is_last_joiner` on those that came last."""


class JoinConfig(NamedTuple):
    """Whether a Joinable is inside of a Join, and what that does."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


OFF = JoinConfig(False, False, False)


class Joinable:
    """The base of classes with collectives in each iteration. They call `Join.notify_join_context(self)` before."""

    _join_config = OFF

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What takes part in the collectives instead; `kwargs` are those of Join."""
        raise NotImplementedError

    @property
    def join_device(self) -> Device:
        """The device of the tensors in the collectives."""
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        """The group of the collectives."""
        raise NotImplementedError


class Join:
    """A context in which ranks may have different numbers of iterations.

    A rank that leaves the context takes part in the collectives of the `joinables`, such as a DistributedDataParallel,
    until the others leave it, too. With `throw_on_early_termination` all ranks raise instead. All ranks enter it; an
    exception inside passes.
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throws = joinables, enable, throw_on_early_termination
        self._group, self._device = groups[0], joinables[0].join_device
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]

    def __enter__(self) -> None:
        for i, joinable in enumerate(self._joinables):
            joinable._join_config = JoinConfig(self._enable, self._throws, i == 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._enable and kind is None:
                self._keep_up()
        finally:
            for joinable in self._joinables:
                joinable._join_config = OFF

    def _keep_up(self) -> None:
        last = True
        while self._others():
            if self._throws:
                all_reduce(ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {self._group.ranks[self._group.rank()]} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last = False
        for hook in self._hooks:
            hook.post_hook(last)

    def _others(self) -> int:
        """How many ranks are in an iteration: the counterpart of `notify_join_context`."""
        count = zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tells the ranks without data that this one has some; a Joinable calls it before its collectives."""
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
