"""Runs tasks, including nested backward calls, and restores the modes of the thread after them."""

from __future__ import annotations

import _thread
import contextvars
import threading
from collections.abc import Sequence
from typing import Any

from ...backend.counters import TRACING
from ...backend.cuda.thread_state import CupyThreadState
from ...modes import MODES, SAVING, TRANSFORMED, current_modes, enable_grad, no_grad
from ..graph.node import Node
from ..history.anomaly import explain
from ..tensor import Tensor
from ..thread_state import MAX_NESTED, THREAD, ThreadState
from .task import GraphTask
from .task_state import Capture, Root
from .traced_task import TracedTask

EMPTY: tuple[Any, ...] = ()


def execute(
    roots: Sequence[Root], captures: list[Capture] | None, accumulate: bool, keep: bool,
    create_graph: bool, only: set[Node] | None = None, on_tensors: bool = False,
) -> list[Tensor | None]:
    """Runs one task; returns the gradients of `captures`.

    With `accumulate` it adds to the `.grad` of all leaves, or of those in `only`. The rules run on tensors for
    create_graph, under interpreters that must see them, or with `on_tensors`; on arrays otherwise.
    """
    thread = THREAD.state
    if thread.depth >= MAX_NESTED:
        return _on_helper_thread(thread, roots, captures, accumulate, keep, create_graph, only, on_tensors)
    bits, stack = MODES.bits, EMPTY
    if bits & TRANSFORMED:
        stack = MODES.stack
        on_tensors = on_tensors or any(level.sees_backward for level in stack)
    if create_graph:
        on_tensors = True
    task = (GraphTask if TRACING.tracer is None else TracedTask)(
        captures, accumulate, keep, on_tensors, create_graph, only)
    task.start(roots)
    outer, thread.task = thread.task, task
    refused, depth = MODES.saving_refused, thread.depth
    saving = MODES.saving if bits & SAVING else ()
    try:
        task.plan()
        if create_graph:
            with enable_grad():
                task.run(thread)
        elif on_tensors:
            with no_grad():
                task.run(thread)
        else:
            task.run(thread)
        grads = task.collect(captures, roots) if captures and not accumulate else []
        if task.final_callbacks is not None:
            task.current = None
            task.final_callbacks.run(create_graph)
    except BaseException as error:
        # an interrupt may have prevented the __exit__ of a context manager
        MODES.bits, MODES.saving, thread.depth, MODES.stack = bits, saving, depth, stack
        if thread.anomaly:
            explain(error, task.current)
        raise
    finally:
        thread.task, MODES.saving_refused = outer, refused
        if task.final_callbacks is not None:
            task.final_callbacks.close()
    return grads


def _on_helper_thread(caller: ThreadState, *args: Any) -> list[Tensor | None]:
    """Runs `execute` on a thread with a fresh stack, so that only memory limits the depth of nested backward calls.

    Hooks see the caller's state there: our modes, CuPy's thread-local state, and context variables, which `np.errstate`
    uses. If the caller is interrupted, the exception is raised only after the thread has ended, so no task continues
    to run after the caller has caught it.
    """
    outcome: list[Any] = []
    modes, errors, state, context = current_modes(), [], CupyThreadState(), contextvars.copy_context()

    def body() -> None:
        MODES.__dict__.update(modes)
        THREAD.state = caller.for_helper_thread()
        try:
            with state.taken():
                outcome.append(context.run(execute, *args))
        except BaseException as error:  # re-raised below, in the calling thread
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
        error = errors.pop()  # breaks the reference cycle of this frame and the traceback
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
