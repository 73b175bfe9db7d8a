"""Rules of ops whose derivative is not implemented: the result requires grad, and its backward raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import UnknownDerivativeError


def unknown_derivative(op: str, name: str) -> NoReturn:
    """Raises for the derivative of `op` by its argument `name`."""
    raise UnknownDerivativeError(f"the derivative of {op} by {name} is not implemented; detach {name}, if it is meant "
                                 "to be a constant")


def unknown_rules(op: str, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The joint rule and the jvp of an op without any derivative: both raise."""
    def grads(F: Any, g: Any, need: Any) -> Any: unknown_derivative(op, name)
    def jvp(F: Any, t: Any) -> Any: unknown_derivative(op, name)
    return grads, jvp
