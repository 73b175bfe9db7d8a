"""Contexts of a recomputation: replayed random numbers, reusable context managers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ...core.interpret.interception import intercept
from ...random.replay import Places, Repeat


@contextmanager
def repeated(places: Places | None) -> Iterator[None]:
    """Context that replays the random numbers of `places`, if given, and disables interceptors of the caller."""
    with intercept(), nullcontext() if places is None else Repeat(places):
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
