"""The public function checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...autograd import is_grad_enabled
from ...autograd.graph import saved_tensors_hooks
from ...core.interpret.interpreters import entered, refuse_in_transform
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
    """function(*args, **kwargs), saving only the arguments; backward runs the function again for the saved tensors.

    use_reentrant: False is recommended; the default None warns and means True. True runs the function without recording
        and calls backward inside backward: it does not support kwargs and `grad()`, differentiates only tensors that
        are arguments or results themselves, and always reruns the whole function.
    context_fn: returns two context managers, for the forward run and for each recomputation.
    determinism_check: "default" compares number, shapes, dtypes, devices and versions of the tensors that both runs
        save, and raises CheckpointError if they differ; "none" does not compare.
    debug: error messages list the operations of both runs.
    early_stop: stop the recomputation as soon as all needed tensors are computed.
    preserve_rng_state: the recomputation draws the same random numbers, from all generators that the function uses.

    >>> x = ag.ones(2, 2, requires_grad=True)
    >>> y = ag.utils.checkpoint.checkpoint(lambda x: (x @ x).exp().sin(), x, use_reentrant=False)
    >>> y.sum().backward()
    """
    refuse_in_transform("checkpoint", "call the transform inside of the checkpointed function, or leave it out")
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
    """`use_reentrant`; None warns, at the caller's caller, and means True."""
    if use_reentrant is None:
        warnings.warn(
            f"{caller}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass use_reentrant=True.", stacklevel=3,
        )
    return use_reentrant is None or bool(use_reentrant)


def _frame(context_fn: Callable[[], Contexts], determinism_check: str, debug: bool) -> Frame:
    """A frame with its checks and the contexts of both runs."""
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
        return entered(again)

    return Frame(entered(first), Anew(second), check, lambda: explained(first, again))


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
