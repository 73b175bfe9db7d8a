"""Running tasks: one call, backward inside backward, and the mode that a user's code finds itself in."""

from __future__ import annotations

import _thread
import contextvars
import threading
from collections.abc import Sequence
from typing import Any

from ...backend.cuda.thread_state import CupyThreadState
from ...config import MODES, SAVING, current_modes, enable_grad
from ..graph.node import Node
from ..history.anomaly import explain
from ..tensor import Tensor
from ..thread_state import MAX_NESTED, THREAD, ThreadState
from .task import GraphTask
from .task_state import Capture, Root


def execute(
    roots: Sequence[Root], captures: list[Capture] | None, accumulate: bool, keep: bool,
    recording: bool, only: set[Node] | None = None,
) -> list[Tensor | None]:
    """Runs one task; returns the gradients of `captures`.

    With `accumulate` it adds to `.grad` of the leaves, of all or of `only` these.
    """
    thread = THREAD.state
    if thread.depth >= MAX_NESTED:
        return _on_helper_thread(thread, roots, captures, accumulate, keep, recording, only)
    task = GraphTask(captures, accumulate, keep, recording, only)
    task.start(roots)
    outer, thread.task = thread.task, task
    bits, refused, depth = MODES.bits, MODES.saving_refused, thread.depth
    saving = MODES.saving if bits & SAVING else ()
    try:
        task.plan()
        if recording:
            with enable_grad():
                task.run(thread)
        else:
            task.run(thread)
        found = task.collect(captures, roots) if captures and not accumulate else []
        if task.final_callbacks is not None:
            task.current = None
            task.final_callbacks.run(recording)
    except BaseException as error:
        # an interrupt may have kept a context manager from its __exit__
        MODES.bits, MODES.saving, thread.depth = bits, saving, depth
        if thread.anomaly:
            explain(error, task.current)
        raise
    finally:
        thread.task, MODES.saving_refused = outer, refused
        if task.final_callbacks is not None:
            task.final_callbacks.close()
    return found


def _on_helper_thread(caller: ThreadState, *args: Any) -> list[Tensor | None]:
    """The same on a thread with a fresh stack: backward inside backward inside ... is limited by memory only.

    Hooks find there what they would find here: our modes, what CuPy keeps for a thread, and context variables, by which
    `np.errstate` works. An interrupt of the caller waits for the thread: no task goes on behind the back of whoever
    catches it.
    """
    outcome: list[Any] = []
    modes, errors, state, context = current_modes(), [], CupyThreadState(), contextvars.copy_context()

    def body() -> None:
        MODES.__dict__.update(modes)
        THREAD.state = caller.for_helper_thread()
        try:
            with state.taken():
                outcome.append(context.run(execute, *args))
        except BaseException as error:  # re-raised below, in the thread that asked
            errors.append(error)
        finally:
            running.release()

    running = threading.Lock()
    running.acquire()
    try:
        _thread.start_new_thread(body, ())  # threading.Thread.start can be interrupted halfway
    except RuntimeError:  # no thread could be started
        raise
    except BaseException:
        _wait(running)
        raise
    else:
        _wait(running)
    finally:
        state.rejoin()
    if errors:
        error = errors.pop()  # else its traceback would hold this frame, and this frame it
        try:
            raise error
        finally:
            del error
    return outcome[0]


def _wait(running: threading.Lock) -> None:
    try:
        with running:
            pass
    except BaseException:
        _wait(running)
        raise
