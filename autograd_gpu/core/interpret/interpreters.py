"""The stack of interpreters: function transforms, forward mode and selective checkpoints, innermost last.

While `MODES.stack` is not empty, every call of an op takes the general path, which passes it to `innermost`:

    1. The innermost interpreter is taken off the stack and gets the call.
    2. It computes with `lower`, which runs the op as what lies below sees it: the next interpreter, or the op's core.
    3. The public functions in RECORD do the same, so the rules of an op block can run below an interpreter, too.
    4. The stack and all other modes are put back: an interpreter may set the grad mode of what lies below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...modes import MODES, RECORDING_MASK, TRANSFORMED
from ..declare.op import RECORD, OpDef
from .implementation import run_keeping_saved, shown

Result = tuple[Any, dict[str, Any]]  # the results of an op, and its saved extras by name


class Interpreter:
    """Decides what a call of an op means. A subclass defines `run`, which runs with the rest of the stack in place."""

    is_transform = True  # whether checkpoints, backward() and requires_grad_() are refused inside
    sees_backward = True  # whether derivative rules run on tensors inside, so that it sees them
    nests_reverse = True  # whether func.grad inside of it is an interpreter, and not the plain graph
    is_trace = False  # whether it is a Tracing, see tracing.py
    only_watches = False  # whether calls have the same results and graph, and use the same memory, without it
    alive = True
    tapes: tuple[Any, ...] = ()  # of a level of vmap: see batched.py

    def watch(self, op: OpDef, args: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
        """Runs a call with unprepared arguments; for an interpreter that only watches, and is alone on the stack."""
        raise NotImplementedError

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        """Runs a call: `args` are prepared by the general path, with a list input as several; all attributes by name.

        The saved extras are {} for an op that has none.
        """
        raise NotImplementedError

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """Runs a custom Function; returns its outputs and its ctx. By default as below."""
        return cls._call(args)

    def close(self) -> None:
        """Ends the level: its tensors are refused from now on."""
        self.alive = False


def innermost(method: str, *args: Any) -> Any:
    """Calls a method of the innermost interpreter while that is off the stack; restores all modes afterwards."""
    stack, bits = MODES.stack, MODES.bits
    MODES.stack = rest = stack[:-1]
    if not rest:
        MODES.bits = bits & ~TRANSFORMED
    try:
        return getattr(stack[-1], method)(*args)
    finally:
        MODES.stack, MODES.bits = stack, bits


def lower(
    op: OpDef, args: Sequence[Any], attributes: dict[str, Any], wrap: Callable[..., Any] | None = None
) -> Result:
    """Runs the op as what lies below sees it: the next interpreter, or the core, with wrap(forward) for forward."""
    if MODES.stack:
        result: Result = innermost("run", op, args, attributes, *(() if wrap is None else (wrap,)))
        return result
    if wrap is not None:
        return run_keeping_saved(op, args, attributes, wrap(op.compute))  # `general` shows the result to hooks
    if op.saved:
        outs, extras = run_keeping_saved(op, args, attributes)
        return shown(outs, ()), extras
    return getattr(RECORD, op.name)(*([list(args)] if op.variadic else args), **attributes), {}


class replaced:
    """Context manager: replaces the stack of this thread."""

    __slots__ = ("_before", "_bit", "_stack")

    def __init__(self, stack: tuple[Any, ...]) -> None:
        self._stack = stack

    def __enter__(self) -> Any:
        stack, bits = self._stack, MODES.bits
        self._before, self._bit = MODES.stack, bits & TRANSFORMED
        MODES.stack, MODES.bits = stack, bits | TRANSFORMED if stack else bits & ~TRANSFORMED

    def __exit__(self, *exc: object) -> None:
        MODES.stack, MODES.bits = self._before, MODES.bits & ~TRANSFORMED | self._bit


class entered(replaced):
    """Context manager: adds an interpreter to the stack, below the `above` innermost ones; closes it at the end."""

    __slots__ = ("_above", "_interpreter")

    def __init__(self, interpreter: Interpreter, above: int = 0) -> None:
        self._interpreter, self._above = interpreter, above

    def __enter__(self) -> Any:
        stack = MODES.stack
        place = len(stack) - self._above
        self._stack = (*stack[:place], self._interpreter, *stack[place:])
        super().__enter__()
        return self._interpreter

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._interpreter.close()


def below(interpreter: Interpreter) -> Any:
    """Context manager: what lies below `interpreter`. Does nothing if it is not on the stack."""
    stack = MODES.stack
    return replaced(stack[: stack.index(interpreter)] if interpreter in stack else stack)


def only_watched() -> bool:
    """Whether calls are what they are without the modes that are on: no hooks, no interpreter but watching ones."""
    return not MODES.bits & ~(RECORDING_MASK | TRANSFORMED) and all(level.only_watches for level in MODES.stack)


def in_transform() -> bool:
    """Whether this thread is inside of a function transform or of forward mode."""
    return any(interpreter.is_transform for interpreter in MODES.stack)


def refuse_in_transform(what: str, instead: str) -> None:
    """RuntimeError if this thread is inside of a transform: `what` is not possible there; `instead` is the way out."""
    if in_transform():
        raise RuntimeError(f"{what} inside of a function being transformed (vmap, grad, jvp, ...) is not supported; "
                           f"{instead}")


def ended(level: Interpreter) -> NoReturn:
    """Raises for a tensor whose level is not on the stack."""
    name = type(level).__name__
    if not level.alive:
        raise RuntimeError(f"a tensor of a transform ({name}) is used after the transform has ended; "
                           "return it from the transformed function instead")
    raise RuntimeError(f"a tensor of a transform ({name}) is used outside of it: below it, or on another thread; "
                       "use it in the transformed function only, and return what is needed outside")
