"""Objects that exist once per key in a process: copy engines, slabs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class KeyedSingleton(dict[int, Value]):
    """A thread-safe dict that makes a missing value by make(key). Hold `lock` to delete an entry."""

    def __init__(self, make: Callable[[int], Value]) -> None:
        super().__init__()
        self.make, self.lock = make, threading.Lock()

    def __missing__(self, key: int) -> Value:
        with self.lock:
            value = self.get(key)  # another thread may have made it
            if value is None:
                value = self[key] = self.make(key)
            return value
