"""PyTorch's `torch.compiler`: what a program asks of `ag.compile`."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from ..compilation import compile, reset
from ..core.interpret.tracing import refuse, tracer
from ..missing_names import getattr_of

T = TypeVar("T")
__getattr__ = getattr_of(__name__)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorator, with or without parentheses, of what is not to be compiled: a call that runs it stays eager.

    >>> @ag.compiler.disable
    ... def double(x):
    ...     return x * 2
    >>> double(ag.ones(1))
    tensor([2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        refuse(f"a function is marked with compiler.disable{f' ({reason})' if reason else ''}", "call it outside")
        return fn(*args, **kwargs)

    return disabled


def allow_in_graph(fn: T) -> T:
    """The function as it is: what it does with operations is recorded."""
    return fn


def assume_constant_result(fn: T) -> T:
    """The function as it is: a number that it returns is compared between the first calls."""
    return fn


def is_compiling() -> bool:
    """Whether this thread is inside of a call that `ag.compile` records.

    >>> ag.compiler.is_compiling()
    False
    """
    return tracer() is not None


def is_dynamo_compiling() -> bool:
    """The same."""
    return is_compiling()


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Does nothing: no compiled program is a CUDA graph."""


__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "reset",
]  # fmt: skip
