"""checkpoint: the call that users make."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...autograd import is_grad_enabled
from ...autograd.graph import saved_tensors_hooks
from ...core.interpret.interception import intercept
from ...core.thread_state import ModesBefore
from ...random.replay import GeneratorSnapshot
from .determinism import DEBUG, NAME, Check, OpLog, check_of, explained
from .frame import EARLY_STOP, Frame
from .recomputation import Anew
from .reentrant import CheckpointFunction

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing: the default of `checkpoint`.

    >>> forward, recomputation = ag.utils.checkpoint.noop_context_fn()
    """
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), of which only the arguments are kept: backward runs it again for what it saved.

    use_reentrant: False is recommended, and has to be asked for: None warns and means True. True runs the function
        without recording and calls backward inside of backward: it takes no kwargs and no `grad()`, follows only
        tensors that are arguments and results themselves, and runs the whole function again.
    context_fn: makes two context managers, around the first and around every other run.
    determinism_check: "default" compares number, shapes, dtypes, devices and versions of the tensors that both runs
        saved, and raises CheckpointError; "none" does not.
    debug: an error then lists the operations of both runs.
    early_stop: the second run ends as soon as everything is there.
    preserve_rng_state: random numbers come again, from every generator that the function uses.

    >>> x = ag.ones(2, 2, requires_grad=True)
    >>> y = ag.utils.checkpoint.checkpoint(lambda x: (x @ x).exp().sin(), x, use_reentrant=False)
    >>> y.sum().backward()
    """
    if not is_reentrant(use_reentrant, NAME):
        frame = _frame(context_fn, determinism_check, debug)
        if not is_grad_enabled():
            return function(*args, **kwargs)
        frame.early_stop = early_stop if EARLY_STOP.enabled is None else EARLY_STOP.enabled
        frame.snapshot = GeneratorSnapshot() if preserve_rng_state else None
        return _run(frame, function, args, kwargs)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def is_reentrant(use_reentrant: bool | None, caller: str) -> bool:
    """None warns whoever called our caller, and means True."""
    if use_reentrant is None:
        warnings.warn(
            f"{caller}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass use_reentrant=True.", stacklevel=3,
        )
    return use_reentrant is None or bool(use_reentrant)


def _frame(context_fn: Callable[[], Contexts], determinism_check: str, debug: bool) -> Frame:
    """The frame with its checks, and the contexts of both runs."""
    if debug if DEBUG.enabled is None else DEBUG.enabled:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        return _debugged(check_of(determinism_check))
    check = check_of(determinism_check)
    return Frame(*context_fn(), check)


def _debugged(check: Check) -> Frame:
    first, again = OpLog(), OpLog()

    def second() -> AbstractContextManager[Any]:
        again.clear()
        return intercept(again)

    return Frame(intercept(first), Anew(second), check, lambda: explained(first, again))


def _run(frame: Frame, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The forward pass."""
    frame.keep(function, args, kwargs)
    before = ModesBefore()
    try:
        with saved_tensors_hooks(frame.pack, frame.unpack), frame.snapshot or nullcontext(), frame.forward:
            result = function(*args, **kwargs)
            frame.complete = True
    except BaseException:
        before.put_back()
        raise
    if not frame.complete:
        raise RuntimeError(f"{NAME}: the forward context provided by context_fn suppressed an exception raised during "
                           "the checkpointed forward. This is not supported because checkpoint cannot return a value "
                           "for a failed forward.")
    return result
