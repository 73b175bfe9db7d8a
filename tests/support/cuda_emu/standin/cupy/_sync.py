"""cupyx.allow_synchronize: a thread may forbid itself to wait for the device by a copy."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class DeviceSynchronized(RuntimeError):
    def __init__(self, message: str = "Device synchronization was detected while disallowed.") -> None:
        super().__init__(message)


class _Allowed(threading.local):
    now = True


_allowed = _Allowed()


def declare() -> None:
    if not _allowed.now:
        raise DeviceSynchronized


@contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    warnings.warn("cupyx.allow_synchronize will be removed in future releases as it is not possible to reliably detect "
                  "synchronizations.", stacklevel=3)
    before, _allowed.now = _allowed.now, allow
    try:
        yield
    finally:
        _allowed.now = before
