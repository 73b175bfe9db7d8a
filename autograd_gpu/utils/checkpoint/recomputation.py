"""Contexts of a recomputation: replayed random numbers, reusable context managers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ...core.interpret.duals import Forward
from ...core.interpret.interpreters import replaced
from ...core.interpret.tracing import Tracing, tracer
from ...modes import MODES
from ...random.replay import GeneratorReplay, GeneratorSnapshot


@contextmanager
def repeated(snapshot: GeneratorSnapshot | None) -> Iterator[None]:
    """The random numbers of `snapshot` come again, without a snapshot just more of them.

    Policies outside do not see the calls inside, which are no part of the forward pass; a profile and a trace do.
    Levels of forward mode stay on, so that recomputed tensors have their tangents.
    """
    levels = tuple([level for level in MODES.stack
                    if isinstance(level, Forward) or level.only_watches or level.is_trace])
    with replaced(levels), nullcontext() if snapshot is None else GeneratorReplay(snapshot), _region(tracer()):
        yield


@contextmanager
def _region(level: Tracing | None) -> Iterator[None]:
    """Has a trace note that what runs inside is a recomputation."""
    if level is None:
        yield
        return
    outer, level.regions = level.region, level.regions + 1
    level.region = level.regions
    try:
        yield
    finally:
        level.region = outer


class Anew:
    """A reusable, thread-safe context manager that makes a new context at each entry."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._here = make, threading.local()

    def __enter__(self) -> Any:
        context = self._make()
        value = context.__enter__()
        self._here.__dict__.setdefault("open", []).append(context)
        return value

    def __exit__(self, *exc: Any) -> bool | None:
        return self._here.open.pop().__exit__(*exc)
