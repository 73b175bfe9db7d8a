"""The state of each thread: the running task, the nesting depth of user code, anomaly mode, and start hooks."""

from __future__ import annotations

import threading

from ..modes import ANOMALY, GRAD_OFF, MODES, RECORDING_MASK, SAVING, current_modes, restore_modes
from .graph.hooks import Hooks
from .graph.node import Node

MAX_NESTED = 30  # nested backward calls on one thread; the next one runs on a helper thread with its own stack


class RunningTask:
    """The part of a task that code below the engine uses."""

    __slots__ = ("current",)

    current: Node | None  # the running node, set only if the task is watched


class ThreadState:
    """The state of one thread: one thread-local read per task gets all of it."""

    __slots__ = ("anomaly", "check_nan", "depth", "start_hooks", "task")

    def __init__(self) -> None:
        self.depth = 0  # nesting depth of user code inside backward
        self.task: RunningTask | None = None  # the innermost running task
        self.start_hooks = Hooks()  # the hooks of on_node_start
        self.anomaly = False  # equal to the bit modes.ANOMALY of MODES.bits
        self.check_nan = True

    def for_helper_thread(self) -> ThreadState:
        """Makes the state of a helper thread: the same start hooks and anomaly mode, depth 0."""
        thread = ThreadState()
        thread.start_hooks, thread.anomaly, thread.check_nan = self.start_hooks, self.anomaly, self.check_nan
        return thread


class _Thread(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


THREAD = _Thread()


RESTORED = RECORDING_MASK | SAVING  # without anomaly mode: user code may turn that on or off permanently


class user_code:
    """Context manager for a hook or a custom backward: sets recording as create_graph requires, and counts the depth.

    At its end it restores the recording modes and the saved-tensor hooks.
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
    """Stores this thread's modes, so that they can be restored if the following code fails.

    An interrupt at the start of an `__exit__`, or at the end of an `__enter__`, would leave a mode on.
    """

    __slots__ = ("_depth", "_modes")

    def __init__(self) -> None:
        self._modes, self._depth = current_modes(), THREAD.state.depth

    def put_back(self) -> None:
        restore_modes(self._modes)
        thread = THREAD.state
        thread.depth, thread.anomaly = self._depth, bool(MODES.bits & ANOMALY)
