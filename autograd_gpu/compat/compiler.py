"""`torch.compile` and `torch.compiler` for programs that use them: functions stay what they are, with one warning."""

from __future__ import annotations

from typing import Any, TypeVar

from ..missing_names import getattr_of, warn_once

T = TypeVar("T")
__getattr__ = getattr_of(__name__)


def compile(model: Any = None, *, disable: bool = False, **options: Any) -> Any:
    """`model`, a function or a module, as it is, or a decorator that returns it; warns once that nothing is compiled.

    The options of PyTorch's compiler are accepted; with `disable` there is no warning.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     net = ag.compile(ag.nn.Linear(2, 1))
    >>> type(net).__name__
    'Linear'
    """
    if not disable:
        warn_once("compile", "compile returns what it is given: nothing is compiled here, and the function runs as "
                             "Python. This is said once.")
    return _same if model is None else model


def _same(fn: T) -> T:
    return fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorator, with or without parentheses, of what is not to be compiled: the function as it is."""
    return _same if fn is None else fn


def allow_in_graph(fn: T) -> T:
    """The function as it is."""
    return fn


def assume_constant_result(fn: T) -> T:
    """The function as it is."""
    return fn


def is_compiling() -> bool:
    """False: nothing is compiled.

    >>> ag.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is compiled."""
    return False


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def reset() -> None:
    """Does nothing: there is nothing that was compiled."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing: no CUDA graph is recorded."""


__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "reset",
]  # fmt: skip
