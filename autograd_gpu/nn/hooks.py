"""Forward hooks of a Module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.hooks import RemovableHandle

if TYPE_CHECKING:
    from .module import Module

Hook = Callable[..., Any]


class ForwardHooks:
    """The hooks of one module, in the order in which they run. A module without hooks has none of these."""

    __slots__ = ("_count", "post", "pre")

    def __init__(self) -> None:
        self.pre: dict[int, tuple[Hook, bool]] = {}  # (hook, with_kwargs)
        self.post: dict[int, tuple[Hook, bool]] = {}
        self._count = 0

    def add(self, hooks: dict[int, Any], hook: Hook, with_kwargs: bool, prepend: bool) -> RemovableHandle:
        self._count += 1
        key = self._count
        later = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[key] = (hook, with_kwargs)
        hooks.update(later)
        return RemovableHandle(hooks, key)

    def call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """module.forward between its pre-hooks and its hooks."""
        for hook, with_kwargs in list(self.pre.values()):
            if with_kwargs:
                args, kwargs = _new_arguments(hook(module, args, kwargs), args, kwargs)
            elif (changed := hook(module, args)) is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = module.forward(*args, **kwargs)
        for hook, with_kwargs in list(self.post.values()):
            changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            if changed is not None:
                result = changed
        return result


def _new_arguments(changed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    if changed is None:
        return args, kwargs
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed!r}.")
