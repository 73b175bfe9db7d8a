"""Things that exist once per key for all threads of a process: copy engines, slabs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class KeyedSingleton(dict[int, Value]):
    """`found[key]` is make(key), made when it is first asked for. Whoever takes one away holds `lock`."""

    def __init__(self, make: Callable[[int], Value]) -> None:
        super().__init__()
        self.make, self.lock = make, threading.Lock()

    def __missing__(self, key: int) -> Value:
        with self.lock:
            found = self.get(key)  # another thread may have been faster
            if found is None:
                found = self[key] = self.make(key)
            return found
