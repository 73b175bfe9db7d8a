"""Interceptors: objects that see every call of an op on their thread, and may put something in place of its forward.

While one is in `MODES.interceptors` every call takes the general path, on which the op's core is handed its forward.
From the outermost on, each interceptor answers `around(op, args, attributes, forward)` with the forward to go on with
and a function that sees the result, or None.
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
    """Adds interceptors to those of this thread; without any, hides those that are there."""
    before, bit = MODES.interceptors, MODES.bits & INTERCEPTED
    MODES.interceptors = (*before, *interceptors) if interceptors else ()
    MODES.bits = MODES.bits | INTERCEPTED if interceptors else MODES.bits & ~INTERCEPTED
    try:
        yield
    finally:
        MODES.interceptors = before
        MODES.bits = MODES.bits & ~INTERCEPTED | bit


def intercepted(op: OpDef, args: list[Any], attributes: tuple[Any, ...], run: Callable[..., Any]) -> Any:
    """One call, on arguments that the general path has prepared, which runs by run(op, args, attributes, forward)."""
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
