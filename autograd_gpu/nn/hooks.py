"""Forward and backward hooks of one module or of all modules.

A call without hooks costs two truth tests (module.py). With hooks it enters the registered contexts, and runs

1. the forward pre-hooks, those of all modules first,
2. with backward hooks, `BackwardHooks` on the inputs (backward_hooks.py),
3. forward,
4. the forward hooks, those of all modules first,
5. with backward hooks, `BackwardHooks` on the outputs.

If one of these fails, the forward hooks with `always_call` that have not run yet run with None as output.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

from ..core.graph.hooks import Hooks, RemovableHandle, add
from .backward_hooks import BackwardHooks

PRE, POST, BACKWARD_PRE, BACKWARD = "forward_pre", "forward", "backward_pre", "backward"
AROUND = "around"

Function = Callable[..., Any]


class Hook(NamedTuple):
    """A registered function or context, and its options."""

    kind: str
    function: Any
    with_kwargs: bool = False
    always_call: bool = False


EVERYWHERE = Hooks()  # the hooks of all modules


# ---- a call ------------------------------------------------------------------------------------------


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module.forward` with hooks; see the module docstring."""
    hooks = [*EVERYWHERE.values(), *module._ag_hooks.values()]
    run = _Run(module, hooks, args, kwargs)
    with ExitStack() as around:
        for hook in hooks:
            if hook.kind == AROUND:
                around.enter_context(hook.function)
        try:
            return run.all()
        except Exception:
            run.what_is_always_called()
            raise


class _Run:
    """A call of a module with hooks."""

    def __init__(self, module: Any, hooks: list[Hook], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.hooks = hooks
        self.result: Any = None
        self.pending = [hook for hook in hooks if hook.kind == POST]

    def all(self) -> Any:
        for hook in self.hooks:
            if hook.kind == PRE:
                self._before(hook)
        around = {kind: [h.function for h in self.hooks if h.kind == kind] for kind in (BACKWARD, BACKWARD_PRE)}
        backward = BackwardHooks(self.module, **around) if any(around.values()) else None
        if backward is not None:
            self.args = backward.watch_inputs(self.args)
        self.result = self.module.forward(*self.args, **self.kwargs)
        while self.pending:
            self._after(self.pending.pop(0))
        return self.result if backward is None else backward.watch_outputs(self.result)

    def _before(self, hook: Hook) -> None:
        if not hook.with_kwargs:
            changed = hook.function(self.module, self.args)
            if changed is not None:
                self.args = changed if isinstance(changed, tuple) else (changed,)
            return
        changed = hook.function(self.module, self.args, self.kwargs)
        if changed is None:
            return
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                               f"{changed!r}.")
        self.args, self.kwargs = changed

    def _after(self, hook: Hook) -> None:
        inputs = (self.args, self.kwargs) if hook.with_kwargs else (self.args,)
        changed = hook.function(self.module, *inputs, self.result)
        if changed is not None:
            self.result = changed

    def what_is_always_called(self) -> None:
        """After an error, runs the remaining hooks with `always_call`; turns their errors into warnings."""
        for hook in self.pending:
            if hook.always_call:
                try:
                    self._after(hook)
                except Exception as error:
                    warnings.warn("module forward hook with ``always_call=True`` raised an exception that was silenced "
                                  f"as another error was raised in forward: {error}", stacklevel=2)


# ---- of one module -----------------------------------------------------------------------------------


class Hookable:
    """The methods of Module that register hooks. Each returns a handle whose `remove()` unregisters the hook."""

    _ag_hooks: Hooks

    def register_forward_pre_hook(
        self, hook: Function, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before each forward; a result other than None replaces the arguments.

        With `with_kwargs` the call is `hook(module, args, kwargs)`, which returns None or (args, kwargs). `prepend`
        puts the hook before the others.
        """
        return add(self._ag_hooks, Hook(PRE, hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Function, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after each forward; a result other than None replaces the output.

        With `with_kwargs` the call is `hook(module, args, kwargs, output)`. With `always_call` the hook runs also after
        an error in forward or in another hook, with None as output.

        >>> layer = ag.nn.ReLU()
        >>> with layer.register_forward_hook(lambda module, args, output: output + 1):
        ...     layer(ag.zeros(2))
        tensor([1., 1.])
        """
        return add(self._ag_hooks, Hook(POST, hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` after the gradients for the module's inputs are computed.

        Both are tuples by position, with None for an argument that is not a tensor or needs no gradient. A result other
        than None replaces grad_input. If no input requires grad, grad_input is all None and the hook runs when the
        gradients of the outputs are computed.

        >>> layer, seen = ag.nn.Linear(2, 1), []
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output))
        >>> layer(ag.ones(1, 2, requires_grad=True)).sum().backward()
        >>> seen
        [(tensor([[1.]]),)]
        """
        return add(self._ag_hooks, Hook(BACKWARD, hook), prepend)

    def register_full_backward_pre_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before the module's backward; a result replaces grad_output.

        >>> layer = ag.nn.Tanh()
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
        >>> x = ag.zeros(1, requires_grad=True)
        >>> layer(x).backward()
        >>> x.grad
        tensor([10.])
        """
        return add(self._ag_hooks, Hook(BACKWARD_PRE, hook), prepend)

    def register_forward_context(self, context: AbstractContextManager[Any]) -> RemovableHandle:
        """Enters `context` around each call of the module, including its hooks.

        Not in PyTorch. The context must be reusable and reentrant; it is exited also after a KeyboardInterrupt.

        >>> layer = ag.nn.ReLU()
        >>> with layer.register_forward_context(ag.no_grad()):
        ...     layer(ag.ones(2, requires_grad=True)).requires_grad
        False
        """
        return add(self._ag_hooks, Hook(AROUND, context))


# ---- of all modules ----------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Function) -> RemovableHandle:
    """Calls `hook(module, args)` before each forward of any module; see Module.register_forward_pre_hook.

    >>> names = []
    >>> with ag.nn.hooks.register_module_forward_pre_hook(lambda module, args: names.append(type(module).__name__)):
    ...     _ = ag.nn.ReLU()(ag.zeros(1))
    >>> names
    ['ReLU']
    """
    return add(EVERYWHERE, Hook(PRE, hook))


def register_module_forward_hook(
    hook: Function, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls `hook(module, args, output)` after each forward of any module; see Module.register_forward_hook."""
    return add(EVERYWHERE, Hook(POST, hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Function) -> RemovableHandle:
    """Calls `hook(module, grad_output)` before any module's backward; see Module.register_full_backward_pre_hook."""
    return add(EVERYWHERE, Hook(BACKWARD_PRE, hook))


def register_module_full_backward_hook(hook: Function) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` after any module's; see Module.register_full_backward_hook."""
    return add(EVERYWHERE, Hook(BACKWARD, hook))
