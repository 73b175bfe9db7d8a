"""`torch.jit` for programs that decorate with it: functions and modules stay what they are, with one warning.

There is no compiler here: `trace`, `save` and `load` are not here, and say so.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from .absent import getattr_of, warn_once

T = TypeVar("T")
__getattr__ = getattr_of(__name__)


def _warn(name: str) -> None:
    warn_once("jit", f"jit.{name} returns what it is given: nothing is compiled here, and the function runs as Python. "
                     "This is said once.")


def script(obj: T, *args: Any, **kwargs: Any) -> T:
    """`obj`, a function, class or module, as it is; warns once that nothing is compiled.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     double = ag.jit.script(lambda x: x + x)
    >>> double(ag.ones(2))
    tensor([2., 2.])
    """
    _warn("script")
    return obj


def script_method(fn: T) -> T:
    """`fn` as it is; warns once."""
    _warn("script_method")
    return fn


def script_if_tracing(fn: T) -> T:
    """`fn` as it is: nothing is traced."""
    return fn


def freeze(mod: T, *args: Any, **kwargs: Any) -> T:
    """`mod` as it is; warns once."""
    _warn("freeze")
    return mod


def optimize_for_inference(mod: T, *args: Any, **kwargs: Any) -> T:
    """`mod` as it is; warns once."""
    _warn("optimize_for_inference")
    return mod


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Decorator, with or without parentheses, of what a compiler should leave out: the function as it is."""
    return drop if callable(drop) else _same


def _same(fn: T) -> T:
    return fn


def unused(fn: T) -> T:
    """Decorator of what a compiler should leave out: the function as it is."""
    return fn


def export(fn: T) -> T:
    """Decorator of what a compiler should take in: the function as it is."""
    return fn


def annotate(the_type: Any, the_value: T) -> T:
    """`the_value`."""
    return the_value


def is_scripting() -> bool:
    """False: nothing is compiled.

    >>> ag.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


__all__ = [
    "Final", "annotate", "export", "freeze", "ignore", "is_scripting", "is_tracing",
    "optimize_for_inference", "script", "script_if_tracing", "script_method", "unused",
]  # fmt: skip
