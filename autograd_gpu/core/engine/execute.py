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
from ..tensor import Tensor, alias
from ..thread_state import MAX_NESTED, THREAD, ThreadState
from .task import GraphTask
from .task_state import Capture


def execute(
    roots: Sequence[tuple[Node, int, Tensor]], captures: list[Capture] | None, accumulate: bool, keep: bool,
    recording: bool, only: set[Node] | None = None,
) -> list[Tensor | None]:
    """Runs one task. `roots`: (node, nr, gradient) triples; returns the gradients of `captures`.

    With `accumulate` it adds to `.grad` of the leaves, of all or of `only` these.
    """
    thread = THREAD.state
    if thread.depth >= MAX_NESTED:
        return _on_helper_thread(thread, roots, captures, accumulate, keep, recording, only)
    task = GraphTask(captures, accumulate, keep, recording, only)
    if len(roots) == 1 and roots[0][1] == 0:
        node, _, g = roots[0]
        task.root, task.buffers[node] = node, g if recording else g._array
    else:
        for node, nr, g in roots:
            task.add(node, nr, g if recording else g._array)
        if len(roots) == 1:
            task.root = roots[0][0]
    outer, thread.task = thread.task, task
    bits, refused, depth = MODES.bits, MODES.saving_refused, thread.depth
    saving = MODES.saving if bits & SAVING else ()
    try:
        task.plan([root[0] for root in roots])
        if recording:
            with enable_grad():
                task.run(thread)
        else:
            task.run(thread)
        found = task.collect(captures) if captures and not accumulate else []
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
    return found if recording or not found else _handed_through(found, roots)


def _handed_through(found: list[Tensor | None], roots: Sequence[tuple[Node, int, Tensor]]) -> list[Tensor | None]:
    """A gradient that is one of those given shares its version counter with it."""
    if len(roots) == 1:
        only = roots[0][2]
        return [alias(only) if x is not None and x._array is only._array else x for x in found]
    given = {id(g._array): g for _, _, g in roots}
    return [alias(given[id(x._array)]) if x is not None and id(x._array) in given else x for x in found]


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
