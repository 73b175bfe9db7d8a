"""The grad modes, and PyTorch's switch for multithreading, which has no effect here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..modes import decorated, enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad", "inference_mode", "is_multithreading_enabled", "no_grad", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip

Fn = TypeVar("Fn", bound=Callable[..., Any])


class _Multithreading(threading.local):
    enabled = True


STATE = _Multithreading()


class set_multithreading_enabled:
    """Sets the flag of `is_multithreading_enabled`, for compatibility: backward always runs on the calling thread.

    Takes effect at the call; as a context manager, restores the flag at exit. Thread-local; also a decorator.

    >>> with ag.autograd.set_multithreading_enabled(False):
    ...     ag.autograd.is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode, self._before = bool(mode), STATE.enabled
        STATE.enabled = self.mode

    def __enter__(self) -> None:
        """Does nothing: __init__ sets the flag."""

    def __exit__(self, *exc: object) -> None:
        STATE.enabled = self._before

    def __call__(self, fn: Fn) -> Fn:
        """`fn` decorated to run with the flag."""
        STATE.enabled = self._before  # a decorator switches at the call only
        return decorated(fn, lambda: set_multithreading_enabled(self.mode))


def is_multithreading_enabled() -> bool:
    """The flag of `set_multithreading_enabled` in this thread; it has no effect.

    >>> ag.autograd.is_multithreading_enabled()
    True
    """
    return STATE.enabled
