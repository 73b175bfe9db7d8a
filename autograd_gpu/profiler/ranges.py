"""record_function: a named span around a block or the calls of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..backend.counters import TRACING
from .log import RANGE

Fn = TypeVar("Fn", bound=Callable[..., Any])


class record_function:
    """Context manager or decorator: a span `name` of the profile that records; without one it does nothing.

    >>> with ag.profiler.profile() as prof:
    ...     with ag.profiler.record_function("forward"):
    ...         y = ag.ones(3).exp()
    >>> [event.name for event in prof.events() if event.cpu_parent is None]
    ['forward']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._spans: list[Any] = []

    def __enter__(self) -> record_function:
        tracer = TRACING.tracer
        facts = {} if self.args is None else {"args": self.args}
        span = None if tracer is None else tracer.span(RANGE, self.name, **facts)
        if span is not None:
            span.__enter__()
        self._spans.append(span)
        return self

    def __exit__(self, *exc: Any) -> None:
        span = self._spans.pop()
        if span is not None:
            span.__exit__(*exc)

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn`."""

        @functools.wraps(fn)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return fn(*args, **kwargs)

        return recorded  # type: ignore[return-value]
