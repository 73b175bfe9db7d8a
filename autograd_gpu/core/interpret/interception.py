"""Interceptors: objects that intercept every call of an op on their thread, and may replace its forward.

While `MODES.interceptors` is not empty, every call takes the general path, which passes a forward to the op's core.
From the outermost to the innermost, `around(op, args, attributes, forward)` of each interceptor returns the forward to
continue with, and a function that is called with the result, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ...config import INTERCEPTED, MODES
from ..declare.op import OpDef

Forward = Callable[..., Any]


class Interceptor(Protocol):
    def around(
        self, op: OpDef, args: list[Any], attributes: dict[str, Any], forward: Forward
    ) -> tuple[Forward, Callable[[Any], None] | None]: ...


@contextmanager
def intercept(*interceptors: Interceptor) -> Iterator[None]:
    """Adds interceptors to those of this thread; without arguments, disables the present ones."""
    before, bit = MODES.interceptors, MODES.bits & INTERCEPTED
    MODES.interceptors = (*before, *interceptors) if interceptors else ()
    MODES.bits = MODES.bits | INTERCEPTED if interceptors else MODES.bits & ~INTERCEPTED
    try:
        yield
    finally:
        MODES.interceptors = before
        MODES.bits = MODES.bits & ~INTERCEPTED | bit


def intercepted(op: OpDef, args: list[Any], attributes: tuple[Any, ...], run: Callable[..., Any]) -> Any:
    """Runs run(op, args, attributes, forward) under the interceptors; the general path has prepared the arguments."""
    forward, watchers = op.forward, []
    named = dict(zip(op.attributes, attributes, strict=True))
    for interceptor in MODES.interceptors:
        forward, watcher = interceptor.around(op, args, named, forward)
        watchers.append(watcher)
    out = run(op, args, attributes, forward)
    for watcher in watchers:
        if watcher is not None:
            watcher(out)
    return out
