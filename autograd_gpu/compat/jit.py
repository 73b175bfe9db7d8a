"""`torch.jit` for programs that decorate with it: functions and modules stay what they are, with one warning.

`ag.compile` is what makes functions faster here. `trace` runs the function once and returns it, and `save` and `load`
say why they are not here.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from ..missing_names import getattr_of, warn_once

T = TypeVar("T")
__getattr__ = getattr_of(__name__)


def _warn(name: str) -> None:
    warn_once("jit", f"jit.{name} returns what it is given, and the function runs as Python; ag.compile makes it "
                     "faster. This is said once.")


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


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """`func`, a function or a module, as it is, after a call on the examples; warns once that nothing is recorded.

    PyTorch's result repeats the operations that the examples led to; this one runs as Python, so branches and loops
    follow the arguments of each call.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     relu = ag.jit.trace(lambda x: x if x > 0 else 0 * x, ag.tensor(1.0))
    >>> relu(ag.tensor(-3.0))
    tensor(-0.)
    """
    _warn("trace")
    if options.get("example_kwarg_inputs") is not None:
        func(**options["example_kwarg_inputs"])
    elif example_inputs is not None:
        func(*(example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)))
    return func


def trace_module(mod: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """`mod` as it is, after a call of each method of `inputs` on its examples; warns once."""
    _warn("trace_module")
    for name, examples in inputs.items():
        getattr(mod, name)(*(examples if isinstance(examples, tuple | list) else (examples,)))
    return mod


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
    "optimize_for_inference", "script", "script_if_tracing", "script_method", "trace",
    "trace_module", "unused",
]  # fmt: skip
