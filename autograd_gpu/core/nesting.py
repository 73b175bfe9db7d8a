"""Around a user's code that the engine calls: the recording mode that it finds, and how deep it is."""

from __future__ import annotations

import threading

from ..config import GRAD_OFF, MODES

MAX_NESTED = 30  # backward calls inside user code on one thread before the next gets a helper thread and its stack


class _Nesting(threading.local):
    depth = 0


NESTING = _Nesting()


class user_code:
    """Around a hook or a custom backward: recording as create_graph says, and one level deeper in the nesting."""

    __slots__ = ("_bits", "_recording")

    def __init__(self, recording: bool) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        self._bits = MODES.bits
        MODES.bits = self._bits & ~GRAD_OFF if self._recording else self._bits | GRAD_OFF
        NESTING.depth += 1

    def __exit__(self, *exc: object) -> None:
        NESTING.depth -= 1
        MODES.bits = self._bits
