"""`autocast` for programs that use it: operations compute in the dtypes of their tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..missing_names import warn_once

F = TypeVar("F", bound=Callable[..., Any])


class autocast:
    """Context or decorator in which PyTorch computes products in half precision; here operations keep their dtypes.

    autocast(device_type, dtype=None, enabled=True, cache_enabled=None). With `enabled` it warns once: results are those
    of the tensors' own dtypes, float32 as a rule, so they are more accurate than PyTorch's, and take more time and
    memory. Convert the model and its inputs with `.half()` or `.bfloat16()` instead. ValueError unless device_type is a
    string.

    >>> with ag.autocast("cpu", enabled=False):
    ...     (ag.ones(2, 2) @ ag.ones(2, 2)).dtype
    dtype('float32')
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device, self.fast_dtype = device_type, dtype
        if enabled:
            warn_once("autocast", "autocast has no effect: operations compute in the dtypes of their tensors, as with "
                                  "enabled=False; convert model and inputs with .half() or .bfloat16() instead. This "
                                  "is said once.")

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing, as `__enter__`."""

    def __call__(self, fn: F) -> F:
        return fn


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` has an effect: never.

    >>> ag.amp.is_autocast_available("cuda")
    False
    """
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether `autocast` is in effect: never.

    >>> ag.is_autocast_enabled()
    False
    """
    return False


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorator of a Function's forward under autocast: the function as it is."""
    return functools.partial(custom_fwd, device_type=device_type) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorator of a Function's backward under autocast: the function as it is."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "is_autocast_enabled"]
