"""The modes of recording, and the switch of PyTorch's that has nothing to switch here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..config import decorated, enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad", "inference_mode", "is_multithreading_enabled", "no_grad", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip

Fn = TypeVar("Fn", bound=Callable[..., Any])


class _Multithreading(threading.local):
    enabled = True


STATE = _Multithreading()


class set_multithreading_enabled:
    """For PyTorch's sake: backward runs on the thread that calls it, whatever `mode` is.

    `is_multithreading_enabled` answers with it. It holds from the call on, as a context manager until its end.
    Thread-local; also a decorator.

    >>> with ag.autograd.set_multithreading_enabled(False):
    ...     ag.autograd.is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode, self._before = bool(mode), STATE.enabled
        STATE.enabled = self.mode

    def __enter__(self) -> None:
        """Everything is done by __init__."""

    def __exit__(self, *exc: object) -> None:
        STATE.enabled = self._before

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn`."""
        STATE.enabled = self._before  # a decorator switches at the call only
        return decorated(fn, lambda: set_multithreading_enabled(self.mode))


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` has set in this thread; without effect.

    >>> ag.autograd.is_multithreading_enabled()
    True
    """
    return STATE.enabled
