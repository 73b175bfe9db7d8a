"""Contexts of a recomputation: replayed random numbers, reusable context managers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ...core.interpret.interception import intercept
from ...random.replay import GeneratorReplay, GeneratorSnapshot


@contextmanager
def repeated(snapshot: GeneratorSnapshot | None) -> Iterator[None]:
    """The random numbers of `snapshot` come again, without a snapshot just more of them.

    Whoever watches the calls of ops outside does not see those inside: they are no part of the forward pass.
    """
    with intercept(), nullcontext() if snapshot is None else GeneratorReplay(snapshot):
        yield


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
