"""Hooks of an optimizer's step and state dicts, and the wrapper of `step` that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..backend.counters import TRACING
from ..core.graph.hooks import Hooks, RemovableHandle, add
from ..core.interpret import tracing
from ..modes import MODES

Hook = Callable[..., Any]

BEFORE, AFTER, SAVE_PRE, SAVE_POST, LOAD_PRE, LOAD_POST = "before", "after", "save_pre", "save", "load_pre", "load"
EVERYWHERE: dict[str, Hooks] = {BEFORE: Hooks(), AFTER: Hooks()}  # around the steps of all optimizers


class Hookable:
    """The methods of Optimizer that register hooks. Each returns a handle whose `remove()` unregisters the hook."""

    # Defaults for an optimizer that wraps another one without `super().__init__`: it can step and have hooks.
    _ag_in_step = False
    _ag_steps_taken = 0
    _ag_hooks: dict[str, Hooks] | None = None

    def _ag_forget_hooks(self) -> dict[str, Hooks]:
        kinds = (BEFORE, AFTER, SAVE_PRE, SAVE_POST, LOAD_PRE, LOAD_POST)
        hooks = self._ag_hooks = {kind: Hooks() for kind in kinds}
        return hooks

    def _ag_add_hook(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        hooks = self._ag_forget_hooks() if self._ag_hooks is None else self._ag_hooks
        return add(hooks[kind], hook, prepend)

    def _ag_hooks_of(self, kind: str) -> list[Hook]:
        own = self._ag_hooks
        return [*EVERYWHERE.get(kind, {}).values(), *([] if own is None else own[kind].values())]

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) before each step; a result (args, kwargs) replaces them.

        `args` are the arguments of `step`, including self. RuntimeError if the hook returns anything but None or a
        pair.

        >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)])
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        return self._ag_add_hook(BEFORE, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) after each step.

        >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)])
        >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("after"))
        >>> optimizer.step()
        after
        >>> handle.remove()
        """
        return self._ag_add_hook(AFTER, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) before `state_dict`; `prepend` puts it before the other hooks."""
        return self._ag_add_hook(SAVE_PRE, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) after `state_dict`; a result other than None replaces the dict.

        >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "epoch": 3})
        >>> optimizer.state_dict()["epoch"]
        3
        """
        return self._ag_add_hook(SAVE_POST, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before `load_state_dict`; a result other than None replaces the dict.

        The dict is a shallow copy: the hook may set keys, but nested objects are the caller's.
        """
        return self._ag_add_hook(LOAD_PRE, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) after `load_state_dict`."""
        return self._ag_add_hook(LOAD_POST, hook, prepend)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) before each step of any optimizer; see Optimizer.register_step_pre_hook.

    >>> with ag.optim.hooks.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("before")):
    ...     ag.optim.SGD([ag.ones(1, requires_grad=True)]).step()
    before
    """
    return add(EVERYWHERE[BEFORE], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) after each step of any optimizer."""
    return add(EVERYWHERE[AFTER], hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `step` to call the hooks and count steps; a nested call of a base class's step only runs `step`."""

    @functools.wraps(step)
    def hooked(self: Hookable, *args: Any, **kwargs: Any) -> Any:
        if self._ag_in_step:
            return step(self, *args, **kwargs)
        own = self._ag_hooks
        if (own and own[BEFORE]) or EVERYWHERE[BEFORE]:
            args, kwargs = _changed(self, step, args, kwargs)
        if MODES.stack and (level := tracing.tracer()) is not None:
            _traced(self, step, level)
        self._ag_in_step = True
        tracer = TRACING.tracer
        try:
            result = step(self, *args, **kwargs) if tracer is None else tracer.step(step, self, args, kwargs)
        finally:
            self._ag_in_step = False
        self._ag_steps_taken += 1
        own = self._ag_hooks
        if (own and own[AFTER]) or EVERYWHERE[AFTER]:
            for hook in self._ag_hooks_of(AFTER):
                hook(self, (self, *args), kwargs)
        return result

    return hooked


def _traced(optimizer: Hookable, step: Callable[..., Any], level: tracing.Tracing) -> None:
    """Has a compiled call count the step; refuses what is not known of it."""
    own = optimizer._ag_hooks
    if EVERYWHERE[BEFORE] or EVERYWHERE[AFTER] or (own and (own[BEFORE] or own[AFTER])):
        level.refuse("an optimizer has hooks", "remove them, or call step() outside of the compiled function")
    if not step.__module__.startswith(f"{__name__.partition('.')[0]}."):
        what = f"{type(optimizer).__name__}.step is not the library's"
        level.refuse(what, "call it outside of the compiled function")

    def count() -> None:
        optimizer._ag_steps_taken += 1

    optimizer._ag_steps_taken -= 1  # as the wrapper of step counts this one
    level.routine("count_step", count, (), ())


def _changed(
    optimizer: Hookable, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `step` after the pre-hooks."""
    for hook in optimizer._ag_hooks_of(BEFORE):
        changed = hook(optimizer, (optimizer, *args), kwargs)
        if changed is None:
            continue
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
        (_, *args), kwargs = changed
    return tuple(args), kwargs
