"""What each thread is doing: the task that it runs, how deep it is in a user's code, and who watches its nodes."""

from __future__ import annotations

import threading

from ..config import ANOMALY, GRAD_OFF, MODES, RECORDING_MASK, SAVING, current_modes, restore_modes
from .graph.hooks import Hooks
from .graph.node import Node

MAX_NESTED = 30  # backward calls inside user code on one thread before the next gets a helper thread and its stack


class RunningTask:
    """What code below the engine knows of a task."""

    __slots__ = ("current",)

    current: Node | None  # the node that runs, if anyone asks


class ThreadState:
    """The state of one thread: one thread-local read per task brings all of it."""

    __slots__ = ("anomaly", "check_nan", "depth", "start_hooks", "task")

    def __init__(self) -> None:
        self.depth = 0  # of user code inside backward
        self.task: RunningTask | None = None  # the innermost that runs
        self.start_hooks = Hooks()  # of on_node_start
        self.anomaly = False  # as config.ANOMALY in MODES.bits
        self.check_nan = True

    def for_helper_thread(self) -> ThreadState:
        """For a helper thread: the same watchers, an empty stack."""
        thread = ThreadState()
        thread.start_hooks, thread.anomaly, thread.check_nan = self.start_hooks, self.anomaly, self.check_nan
        return thread


class _Thread(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


THREAD = _Thread()


RESTORED = RECORDING_MASK | SAVING  # anomaly mode, which the code may turn on or off for good, stays


class user_code:
    """Around a hook or a custom backward: recording as create_graph says, and one level deeper in the nesting.

    The modes that the code sets, and its saved-tensor hooks, end with it.
    """

    __slots__ = ("_bits", "_recording", "_saving")

    def __init__(self, recording: bool) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        bits = self._bits = MODES.bits
        if bits & SAVING:
            self._saving = MODES.saving
        MODES.bits = bits & ~GRAD_OFF if self._recording else bits | GRAD_OFF
        THREAD.state.depth += 1

    def __exit__(self, *exc: object) -> None:
        THREAD.state.depth -= 1
        before, bits = self._bits, MODES.bits
        if (before | bits) & SAVING:
            MODES.saving = self._saving if before & SAVING else ()
        MODES.bits = bits & ~RESTORED | before & RESTORED


class ModesBefore:
    """This thread's modes, to be put back if what follows fails.

    An interrupt at the start of an `__exit__`, or at the end of an `__enter__`, leaves on what the other has to end.
    """

    __slots__ = ("_depth", "_modes")

    def __init__(self) -> None:
        self._modes, self._depth = current_modes(), THREAD.state.depth

    def put_back(self) -> None:
        restore_modes(self._modes)
        thread = THREAD.state
        thread.depth, thread.anomaly = self._depth, bool(MODES.bits & ANOMALY)
