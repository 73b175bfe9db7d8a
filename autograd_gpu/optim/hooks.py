"""Hooks around an optimizer's step and its state dicts, and the wrapper of `step` that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.graph.hooks import Hooks, RemovableHandle, add

Hook = Callable[..., Any]

BEFORE, AFTER, SAVE_PRE, SAVE_POST, LOAD_PRE, LOAD_POST = "before", "after", "save_pre", "save", "load_pre", "load"
EVERYWHERE: dict[str, Hooks] = {BEFORE: Hooks(), AFTER: Hooks()}  # around the steps of all optimizers


class Hookable:
    """The methods of an Optimizer that register hooks. Each returns a handle whose `remove()` takes the hook away."""

    # What is found of an optimizer that wraps another and never calls `super().__init__`: it can step, and have hooks.
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
        """Calls hook(optimizer, args, kwargs) before each step; what it returns, (args, kwargs), replaces them.

        args are those of `step` with the optimizer in front. RuntimeError if it returns anything but None or a pair.

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
        """Calls hook(optimizer) before a state dict is made; `prepend` puts it before the others."""
        return self._ag_add_hook(SAVE_PRE, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) on a state dict that has been made; what it returns replaces it.

        >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "epoch": 3})
        >>> optimizer.state_dict()["epoch"]
        3
        """
        return self._ag_add_hook(SAVE_POST, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before one is loaded; what it returns replaces it.

        The dict is a shallow copy: keys may be set, but what lies deeper is the caller's.
        """
        return self._ag_add_hook(LOAD_PRE, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) after a state dict has been loaded."""
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
    """`step` between the optimizer's hooks, and counted; within another step, that of a base class, just `step`."""

    @functools.wraps(step)
    def hooked(self: Hookable, *args: Any, **kwargs: Any) -> Any:
        if self._ag_in_step:
            return step(self, *args, **kwargs)
        own = self._ag_hooks
        if (own and own[BEFORE]) or EVERYWHERE[BEFORE]:
            args, kwargs = _changed(self, step, args, kwargs)
        self._ag_in_step = True
        try:
            result = step(self, *args, **kwargs)
        finally:
            self._ag_in_step = False
        self._ag_steps_taken += 1
        own = self._ag_hooks
        if (own and own[AFTER]) or EVERYWHERE[AFTER]:
            for hook in self._ag_hooks_of(AFTER):
                hook(self, (self, *args), kwargs)
        return result

    return hooked


def _changed(
    optimizer: Hookable, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `step` as the pre-hooks leave them."""
    for hook in optimizer._ag_hooks_of(BEFORE):
        changed = hook(optimizer, (optimizer, *args), kwargs)
        if changed is None:
            continue
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
        (_, *args), kwargs = changed
    return tuple(args), kwargs
